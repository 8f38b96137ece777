/** Regions for administrators: facts, engine and pools. */
import { z } from 'zod';
import { poolNames, sizeLimits } from '../../domain/storage/disk.ts';
import { gpuSlices } from '../../domain/regions/catalog.ts';
import { accessModes } from '../../domain/regions/region-settings.ts';
import {
  answer,
  flag,
  id,
  integer,
  label,
  named,
  pagerAnswer,
  pageRequest,
  request,
  secret,
  text,
  wholeNumber,
} from '../common.ts';
import {
  affected,
  change,
  dryRun,
  fromUnixMs,
  lasting,
  listedOffPeak,
  offPeak,
  retired,
  retiredFlag,
  rowVersion,
  storagePrices,
  versioned,
  warnings,
  write,
} from './catalog-admin.ts';
import { adminRoute, operatorReadRoute } from '../route.ts';
import { kubernetesName, labelKey, nodePlacement } from './node-placement.ts';

const MAX_PORT = 65_535;
const MAX_POOL_GB = 10_000_000;
const MAX_CREDENTIALS = 16_384;

const HOST_AND_PORT = /^(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\])(?::\d{1,5})?$/;
const HOST = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$|^[0-9a-f:]+$/;
const MAX_ADDRESS = 45;
const addresses = z.union([z.ipv4(), z.ipv6()]);

export const regionBody = request('RegionRequest', { regionId: id.describe('Region ID') });

const simulatedEngine = named(
  'SimulatedEngineSettings',
  z.strictObject({
    cpuCores: wholeNumber(1, 1_000_000).describe('Cores'),
    memoryGB: wholeNumber(1, 1_000_000).describe('Memory in GB'),
    gpus: wholeNumber(0, 10_000).describe('GPUs'),
  }),
);
const ranges = z.union([z.cidrv4(), z.cidrv6()]);
const range = z
  .string()
  .max(50)
  .refine((text) => ranges.safeParse(text).success, { error: 'must be a range such as 10.98.0.0/16' })
  .describe('CIDR range');
const gpuPartName = z
  .string()
  .min(1)
  .max(63)
  .describe('Follows the name of the card in `gpuName` of types, such as `MIG 1g.5gb`');
const gpuPartKind = z.enum(gpuSlices).describe('`mig`: own memory; `shared`: turns on a card');
const autoscaling = z.strictObject({
  nodePools: z
    .array(
      z
        .strictObject({
          cpuCores: z.number().min(0.1).max(10_000).describe('Cores of a node that instances can have'),
          memoryGB: z.number().min(0.1).max(100_000).describe('Memory of a node that instances can have, in GB'),
          gpuNum: wholeNumber(1, 1_000).describe('GPUs of a node; by default none').optional(),
          gpuName: z.string().min(1).max(64).describe('Their name, as types have it').optional(),
          maxNodes: wholeNumber(1, 100_000).describe('Most nodes of the pool, those that are there included'),
        })
        .refine(({ gpuNum, gpuName }) => (gpuNum === undefined) === (gpuName === undefined), {
          error: 'must have "gpuNum" and "gpuName" together, or neither',
        }),
    )
    .min(1)
    .max(64)
    .describe('Nodes that the cluster can have, pools at zero too'),
  patienceMinutes: wholeNumber(1, 60)
    .describe('Longest wait of an instance for a node, before Berth takes its Pod back and tries again; default 10')
    .optional(),
  idleMinutes: wholeNumber(1, 10_000)
    .describe('Time without use after which the autoscaler may end an instance; by default never')
    .optional(),
});
const kubernetesEngine = named(
  'KubernetesEngineSettings',
  z
    .strictObject({
      login: z
        .enum(['token', 'kubeconfig', 'inCluster'])
        .describe(
          '`token`: `credentials` is a bearer token for `apiUrl`; `kubeconfig`: it is the text of the file; `inCluster`: the service account of the Pod that Berth runs in',
        ),
      apiUrl: z
        .url({ protocol: /^https$/ })
        .max(2_000)
        .describe('Address of the API server')
        .optional(),
      ca: z
        .string()
        .max(65_536)
        .describe('Authority of the API server in PEM; by default those of the system')
        .optional(),
      namespace: kubernetesName.describe('Existing namespace for all objects of the region'),
      reach: z
        .enum(['podAddress', 'portForward'])
        .default('portForward')
        .describe('Way to the ports of instances: addresses of Pods need a route to them'),
      networkPolicies: z
        .boolean()
        .describe('Whether the network of the cluster enforces NetworkPolicies, which keep accounts apart'),
      podRanges: z.array(range).max(16).describe('Addresses of Pods, which node ports are closed to').optional(),
      closedRanges: z
        .array(range)
        .max(64)
        .describe(
          'Ranges that instances with open egress do not reach, besides Pods, nodes and link-local addresses; by default private ranges, in which clusters have their Services',
        )
        .optional(),
      peers: z
        .array(
          z.strictObject({
            cidr: range.optional(),
            namespace: kubernetesName.describe('Namespace of a gateway').optional(),
          }),
        )
        .max(32)
        .describe('Others that may connect to instances, such as the gateway')
        .optional(),
      userNamespaces: z
        .boolean()
        .default(false)
        .describe('Runs root inside as an unprivileged user of the node, which must support it'),
      cpuOvercommit: z
        .number()
        .min(1)
        .max(100)
        .describe('Processors of instances for each processor of the nodes; by default one')
        .optional(),
      ...nodePlacement({ labels: 64, rules: 32 }),
      gpus: z
        .strictObject({
          resource: labelKey.describe('Extended resource, such as `nvidia.com/gpu`'),
          ...nodePlacement({ labels: 8, rules: 8 }),
          nameLabel: labelKey.describe('Label of a node that names its GPUs, such as `nvidia.com/gpu.product`'),
          parts: z
            .array(
              z.strictObject({
                resource: labelKey.describe('Extended resource, such as `nvidia.com/mig-1g.5gb`'),
                name: gpuPartName,
                kind: gpuPartKind,
              }),
            )
            .max(32)
            .describe('Parts of cards that nodes offer as resources of their own')
            .optional(),
        })
        .describe('GPUs of the nodes; by default instances have none')
        .optional(),
      deviceClaims: z
        .array(
          z.strictObject({
            ...nodePlacement({ labels: 8, rules: 8 }),
            deviceClass: kubernetesName.describe('DeviceClass, such as `gpu.nvidia.com`'),
            selector: z
              .string()
              .min(1)
              .max(10_240)
              .describe('CEL expression over `device`, as in a ResourceClaim; by default each device of the class')
              .optional(),
            modelAttribute: z
              .string()
              .max(317)
              .regex(/^[a-z0-9][a-z0-9.-]*\/[A-Za-z_]\w*$/, {
                error: 'must be a domain and a name, such as gpu.nvidia.com/productName',
              })
              .describe('Attribute that names the model of a device, such as `gpu.nvidia.com/productName`'),
            part: z
              .strictObject({
                name: gpuPartName,
                kind: gpuPartKind,
              })
              .describe('Parts of cards; by default whole ones')
              .optional(),
          }),
        )
        .max(12)
        .refine((claims) => new Set(claims.map(({ part }) => part?.name)).size === claims.length, {
          error: 'must have one claim of whole cards at most, and one for each name of a part',
        })
        .describe('GPUs by Dynamic Resource Allocation (`resource.k8s.io/v1`), instead of `gpus`')
        .optional(),
      priorityClass: kubernetesName.describe('PriorityClass of instances').optional(),
      spotPriorityClass: kubernetesName.describe('PriorityClass of spot instances').optional(),
      preemptionGraceSeconds: wholeNumber(1, 3_600)
        .describe('Time from the notice to the end of a preempted spot instance')
        .optional(),
      runtimeClasses: z
        .array(kubernetesName)
        .max(32)
        .describe('RuntimeClasses that instance types may name')
        .optional(),
      privilegedDocker: z
        .strictObject({ image: z.string().min(1).max(500).describe('Image of a Docker daemon') })
        .describe('Docker inside by a privileged container beside the instance; by default there is none')
        .optional(),
      networkImage: z
        .string()
        .min(1)
        .max(500)
        .describe(
          'Image with a shell and `node` 22 or newer, such as `node:24-slim`, which the nodes can pull without a login: runs beside instances without sshd to serve their ssh; by default these have none',
        )
        .optional(),
      autoscaling: autoscaling
        .describe('Nodes that an autoscaler of the cluster may add; by default those that are there are all')
        .optional(),
    })
    .refine(({ gpus, deviceClaims }) => gpus === undefined || deviceClaims === undefined, {
      error: 'must have "gpus" or "deviceClaims", not both',
    }),
);
const dockerEngine = named(
  'DockerEngineSettings',
  z.strictObject({
    endpoint: z
      .string()
      .max(2_000)
      .regex(/^(?:tcp|ssh):\/\/\S+$/, {
        error:
          'must be tcp://host:2376, which is TLS with certificates, or ssh://user@host; unencrypted ports are not used',
      })
      .describe(
        '`tcp://host:port`, always with TLS, or `ssh://user@host`, with a port and the path of the socket if they are not the usual ones',
      ),
    ca: z
      .string()
      .max(65_536)
      .describe(
        "With TLS: authority of the engine's certificate in PEM; `credentials` is the client certificate and its key in PEM, one after the other",
      )
      .optional(),
    hostKey: z
      .string()
      .max(2_000)
      .describe(
        'With ssh: public key of the host, such as `ssh-ed25519 AAAA…`; `credentials` is the private key of the user, without a passphrase',
      )
      .optional(),
    helperImage: z
      .string()
      .min(1)
      .max(500)
      .describe(
        'Image with a shell and the tools of BusyBox, for files of volumes, control files and, with TLS, connections to instances',
      ),
    nodePortBind: z
      .string()
      .refine((text) => addresses.safeParse(text).success, { error: 'must be an IP address such as 192.0.2.7' })
      .meta({ maxLength: MAX_ADDRESS })
      .describe('Address of the host that node ports are published on; by default all')
      .optional(),
    cpuOvercommit: z
      .number()
      .min(1)
      .max(100)
      .describe('Cores that instances may have for each core of the host; default 1')
      .optional(),
  }),
);
const claims = z.strictObject({
  storageClass: kubernetesName.describe('StorageClass'),
  accessMode: z
    .enum(accessModes)
    .default('ReadWriteOnce')
    .describe('`ReadWriteMany`: instances on several nodes may mount a volume at once'),
  snapshotClass: kubernetesName
    .describe('VolumeSnapshotClass; by default that of the driver, if it is its default or only one')
    .optional(),
  sizeLimit: z
    .enum(sizeLimits)
    .describe('`hard`: volumes of the class fail writes beyond their size; `soft`: they do not'),
  filesImage: z
    .string()
    .min(1)
    .max(500)
    .describe('Image with a shell and the tools of BusyBox, for access to files without an instance'),
});
const pool = named(
  'RegionPool',
  z.strictObject({
    name: z.enum(poolNames).describe('`default`, or the type of the volumes that the pool holds'),
    sizeGB: wholeNumber(1, MAX_POOL_GB).describe('GB that disks may take together'),
    claims: claims.describe('Claims of a cluster').optional(),
  }),
);
const port = wholeNumber(1, MAX_PORT);
export const regionSettings = named(
  'RegionSettings',
  z.strictObject({
    simulated: simulatedEngine.describe('Engine in the memory of the server, for trials').optional(),
    kubernetes: kubernetesEngine.describe('Kubernetes cluster').optional(),
    docker: dockerEngine.describe('Docker engine on another host; one of the three').optional(),
    pools: z.array(pool).min(1).max(poolNames.length).describe('Pools of disks, `default` among them'),
    nodePorts: z
      .strictObject({ first: port.describe('First port'), last: port.describe('Last port') })
      .describe('Node ports that instances may get'),
    sharedFolder: z
      .boolean()
      .describe('False: instances have no shared folder of their account, whose disk only one node may mount at a time')
      .optional(),
  }),
  'Engine, pools and node ports of a region that an administrator added',
);

const fields = {
  name: label(64).describe('Name, unique'),
  value: z
    .string()
    .regex(/^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$/, { error: 'must be 1 to 64 lower-case letters, digits and dashes' })
    .describe('Short machine name, unique'),
  location: label(100).describe('Place'),
  sshAddress: z
    .string()
    .max(253)
    .regex(HOST, { error: 'must be a host name or an address in lower case' })
    .describe('Address of ssh and node ports'),
  settings: regionSettings.describe('Engine, pools and node ports'),
};
const optionalFields = {
  domain: z
    .string()
    .max(260)
    .regex(HOST_AND_PORT, { error: 'must be host or host:port in lower case, such as gpu.example.org:8443' })
    .nullable()
    .describe('Host and port of the gateway that instances show; null: as the settings say')
    .optional(),
  offPeak: offPeak.nullable().describe('Off-peak windows; null: none').optional(),
  storagePrices: storagePrices.nullable().describe('Prices of storage; null: the defaults').optional(),
  credentials: secret(1, MAX_CREDENTIALS)
    .nullable()
    .describe('Secret for the API of the engine, which is stored sealed and never shown; null: none')
    .optional(),
};
export const regionCreateRequest = request('CreateRegionRequest', { ...fields, ...optionalFields, dryRun });
export const regionUpdateRequest = request('UpdateRegionRequest', {
  regionId: id.describe('Region ID'),
  ...versioned,
  ...z.object(fields).partial().shape,
  ...optionalFields,
  fromUnixMs,
});
export const regionRetireRequest = request('RetireRegionRequest', {
  regionId: id.describe('Region ID'),
  ...versioned,
  ...retired,
});

const managedRegion = answer('ManagedRegion', {
  regionId: text('Region ID'),
  version: rowVersion,
  retired: retiredFlag,
  name: text('Name'),
  value: text('Short machine name'),
  location: text('Place'),
  domain: text('Host and port of the gateway that instances show'),
  domainFrom: z.enum(['settings', 'administrator']).describe('Origin of `domain`'),
  sshAddress: text('Address of ssh and node ports'),
  settings: regionSettings
    .nullable()
    .describe("Engine, pools and node ports; null for this machine's region, which has those of the server's settings"),
  hasCredentials: flag('Whether a secret for the API of the engine is stored'),
  offPeak: listedOffPeak.nullable().describe('Off-peak windows; null: none'),
  storagePrices: storagePrices.describe('Prices of storage'),
  storagePricesFrom: z.enum(['default', 'administrator']).describe('Origin of `storagePrices`'),
});
export const regionAnswer = answer('RegionAnswer', { region: managedRegion.describe('The region') });
export const regionListAnswer = answer('ListManagedRegionsAnswer', {
  regions: z.array(managedRegion).describe('Regions on the page by name, retired ones too'),
  pager: pagerAnswer.describe('Page and length of the list'),
});
export const regionCreateAnswer = answer('CreateRegionAnswer', {
  region: managedRegion.describe('The region'),
  engine: answer('TriedEngine', {
    version: text('Name and version'),
    capacity: answer('EngineCapacity', {
      cpuMilli: integer('Thousandths of a core'),
      memoryMiB: integer('Memory in MiB'),
      gpus: integer('GPUs'),
    }).describe('Total that instances can have'),
  }).describe('Answer of the engine'),
  warnings,
});
export const regionChangeAnswer = answer('ChangeRegionAnswer', {
  region: managedRegion.describe('The region after the change'),
  affected: affected.describe('Who uses the row'),
  warnings,
});

export const regionAdminRoutes = {
  listManagedRegions: operatorReadRoute('/admin/region/list', pageRequest, regionListAnswer, {
    compressed: true,
    summary: 'List regions with versions and settings, retired ones too (operators)',
  }),
  getRegion: operatorReadRoute('/admin/region/get', regionBody, regionAnswer, {
    summary: 'Show a region with its version and off-peak windows (operators)',
  }),
  createRegion: adminRoute('/admin/region/create', regionCreateRequest, regionCreateAnswer, {
    ...write,
    lasting,
    summary: 'Add a region whose engine answers (administrators)',
  }),
  updateRegion: adminRoute('/admin/region/update', regionUpdateRequest, regionChangeAnswer, {
    ...change,
    lasting,
    summary: 'Change name, place, domain, off-peak windows or engine of a region (administrators)',
  }),
  retireRegion: adminRoute('/admin/region/retire', regionRetireRequest, regionChangeAnswer, {
    ...change,
    summary: 'Refuse new launches and volumes in a region, or take them again; what is there stays (administrators)',
  }),
} as const;
