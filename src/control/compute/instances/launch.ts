/**
 * Launches an instance (`docs/interface.md` §4.1): one transaction reserves capacity and writes
 * instance, event and idempotency record. No engine call.
 */
import { instanceIdAt, userId } from '../../../domain/kernel/ids.ts';
import type { StopPolicy } from '../../../domain/compute/stop-policy.ts';
import { faultOfBillingOptions } from '../../../domain/money/billing-options.ts';
import { withSsh, typeOfSpec } from '../../../domain/compute/instance-change.ts';
import type { Instance, InstanceSpec, Mount } from '../../../domain/compute/instance.ts';
import type { InstanceType, Micros, Region } from '../../../domain/regions/catalog.ts';
import { requestedExtraGB } from '../../../domain/compute/instance-disks.ts';
import { noUsage, volumeTypes } from '../../../domain/storage/disk.ts';
import { beginOperation, FIRST_GENERATION, operationId, type Cause } from '../../../domain/compute/operation.ts';
import { isHourly, rateOfInstance } from '../../../domain/money/meter.ts';
import { usageOfInstance } from '../../../domain/access/quota.ts';
import { disabledOwner, Refusal, regionNotFound, regionRetired } from '../../../domain/kernel/refusal.ts';
import { knownImages } from '../../../store/tables/image-facts.ts';
import { retiredOf } from '../../../store/tables/catalog-rows.ts';
import { insertInstance } from '../../../store/tables/instances.ts';
import { writeLabels } from '../../../store/tables/labelled-rows.ts';
import type { Db } from '../../../store/store.ts';
import type { QuoteSigner } from '../quotes/quote-signature.ts';
import type { Variables } from './environment.ts';
import type { Instances, LaunchInput } from './instances.ts';
import { mountsOf } from './request-mounts.ts';
import {
  dockerSupport,
  catalogWithinHosts,
  refuseOverHosts,
  reserveOrEnqueue,
  architectureOf,
  isMissingLocally,
  imageNotFound,
  misfitOf,
  resolveImage,
} from '../../regions/ports.ts';
import {
  type CatalogSnapshot,
  requestReconcile,
  type RegionDrivers,
  type Regions,
  type Caller,
} from '../../kernel/ports.ts';
import type { NotebookTokens } from '../../access/ports.ts';
import { type FreeSpaceMonitor, poolForType, allotOwnDisks } from '../../storage/ports.ts';
import { payLaunch, meteredInstance, type MeteredDeps, refuseUnpaidRun } from '../../money/ports.ts';

export interface LaunchDeps extends MeteredDeps {
  freeSpace: FreeSpaceMonitor;
  notebookTokens: Pick<NotebookTokens, 'seal'>;
  variables: Pick<Variables, 'write'>;
  firstStopPolicy: StopPolicy;
  quoteSigner: QuoteSigner;
}

export const makeLaunch =
  (deps: LaunchDeps): Instances['launch'] =>
  async (caller, request, idempotency, waitMs = null, quoteId = null) => {
    const catalog = await deps.readCatalog();
    // Validates inside, so a repeated request gets its first answer after catalog changes.
    const write = async (tx: Db, nowMs: number) => {
      const instance = await writeLaunch(tx, deps, catalog, { caller, request, waitMs, quoteId, nowMs });
      return { instanceId: instance.id };
    };
    const answer = await requestReconcile(deps, { subject: 'instance' }, caller.accountId, idempotency, write);
    return { ...answer, operationId: operationId(answer.instanceId, FIRST_GENERATION) };
  };

interface Launch {
  caller: Caller;
  request: LaunchInput;
  waitMs: number | null;
  /** Null: at the price of now. */
  quoteId: string | null;
  nowMs: number;
}

export async function writeLaunch(
  tx: Db,
  deps: LaunchDeps,
  catalog: CatalogSnapshot,
  { caller, request, waitMs, quoteId, nowMs }: Launch,
): Promise<Instance> {
  const found = await resolveImage(tx, catalog, caller, request);
  const { type, region } = resolveType(catalog, request);
  refuseWithoutRuntime(type, region, deps.regions);
  if (request.instanceConfiguration.enableDocker) refuseWithoutDocker(region, deps.regions);
  const drivers = deps.regions.of(region.id);
  const image = { ...found, architecture: architectureOf(drivers) || found.architecture };
  refuseAbsentImage(image, region, drivers);
  if (request.runImageCommand) refuseScripts(request, region);
  await refuseUnfit(tx, found, request);
  if (request.instanceConfiguration.enableCommonData) refuseWithoutCommonData(region, drivers);
  refuseOverHosts(type, { region, catalog, drivers });
  const mounts = await mountsOf(tx, caller.accountId, request);
  deps.freeSpace.refuseIfNearlyFull(volumeTypes.map((type) => poolForType(drivers, type)));
  const of = { accountId: caller.accountId, body: request };
  const priceMicros =
    quoteId === null ? type.pricesMicros[request.billing.chargeMode] : deps.quoteSigner.priceOf(quoteId, of, nowMs);
  const requested = requestedInstance(deps, caller, request, { type, image, mounts, priceMicros }, nowMs);
  const fault = faultOfBillingOptions(requested.spec);
  if (fault !== null) throw new Refusal('field_value', `field "billing.${fault}`);
  refuseWithoutWindows(requested.spec, catalog);
  const ports = requested.nodePorts.length;
  const { spotGraceMs } = deps;
  const within = catalogWithinHosts(catalog, drivers);
  const instance = await reserveOrEnqueue(tx, requested, { ports, catalog: within, waitMs, spotGraceMs, nowMs });
  await refuseRetired(tx, instance.spec, region);
  await allotOwnDisks(tx, drivers, instance);
  await insertInstance(tx, instance, region, { notebookToken: deps.notebookTokens.seal(instance.id), dueAtMs: nowMs });
  const { environment = {}, secrets = {} } = request;
  await deps.variables.write(tx, instance.id, { environment, secrets, names: [] }, nowMs);
  if (request.labels) await writeLabels(tx, 'instance', instance, request.labels);
  const event = {
    accountId: caller.accountId,
    atMs: nowMs,
    kind: 'instance.launched',
    subjectId: instance.id,
    data: { name: instance.spec.name, type: type.name, image: image.name },
    counts: { instances: 1 },
    usage: { before: {}, after: usageOfInstance(instance, true), mayRefuse: true },
  };
  const rates = { before: null, after: rateOfInstance(instance) };
  const { isDisabled } = await deps.metering.appendEvent(tx, event, meteredInstance(instance), rates);
  if (isDisabled) throw disabledOwner();
  await payLaunch(tx, deps.metering, { instance, prices: type.pricesMicros, nowMs });
  await refuseUnpaidRun(tx, deps.metering, instance, 'launch');
  return instance;
}

function refuseScripts({ instanceConfiguration, startCommand = '' }: LaunchInput, region: Region): void {
  const why = 'must be empty with "runImageCommand": only Berth\'s start script runs it; leave one of the two out';
  if (instanceConfiguration.initScript.trim() !== '')
    throw new Refusal('field_value', `field "instanceConfiguration.initScript" ${why}`);
  if (startCommand.trim() !== '') throw new Refusal('field_value', `field "startCommand" ${why}`);
  if (region.engine !== 'kubernetes') return;
  const message = `field "runImageCommand" is true, but region ${region.name} is a cluster, where Berth runs its start script alone; send false`;
  throw new Refusal('unsupported', message);
}

/** Berth builds no images in a cluster, and no registry has its own. */
function refuseAbsentImage({ id, ref }: InstanceSpec['image'], region: Region, drivers: RegionDrivers): void {
  if (!isMissingLocally(ref, drivers)) return;
  const message = `field "imageId" is ${id}: ${ref} is on no node of region ${region.name}, and no registry has it; choose another image, or ask the operator to push it to a registry and to offer it from there`;
  throw new Refusal('unsupported', message);
}

async function refuseUnfit(tx: Db, { id }: InstanceSpec['image'], request: LaunchInput): Promise<void> {
  const known = (await knownImages(tx, [id])).get(id)?.regions[request.region];
  const fault = known === undefined ? null : misfitOf(known, request.runImageCommand ?? false);
  if (fault !== null) throw new Refusal('field_value', `field "imageId" is ${id}: ${fault}`);
}

/** The cached catalog may be a second old. The region is locked, and a retirement locks it, too. */
async function refuseRetired(tx: Db, { type, image, regionId }: InstanceSpec, { name }: Region): Promise<void> {
  const [id] = await retiredOf(tx, { typeId: type.id, imageId: image.id, regionId });
  if (id === image.id) throw imageNotFound(id);
  if (id === regionId) throw regionRetired(name);
  if (id !== undefined) throw typeNotFound(id);
}

const TYPES_LIST = 'POST /api/resource/user/instance/list lists the available types';

export const typeNotFound = (id: string): Refusal =>
  new Refusal('not_found', `instance type ${id} not found; ${TYPES_LIST}`);

function resolveType(catalog: CatalogSnapshot, request: LaunchInput): { type: InstanceType; region: Region } {
  const counted = catalog.regions.get(request.region);
  if (counted?.isRetired === true) throw regionRetired(counted.region.name);
  const type = catalog.types.get(request.instanceTypeId);
  if (!type) throw typeNotFound(request.instanceTypeId);
  if (!counted) throw regionNotFound(request.region);
  if (type.regionId !== counted.region.id) {
    throw new Refusal(
      'not_found',
      `instance type ${type.id} (${type.name}) is not offered in region ${counted.region.id}; ${TYPES_LIST}`,
    );
  }
  if (type.isSpot !== request.isSpotInstance) {
    const family = type.isSpot ? 'a spot type: send isSpotInstance true' : 'not a spot type: send isSpotInstance false';
    throw new Refusal(
      'field_value',
      `field "isSpotInstance" is ${request.isSpotInstance}, but ${type.name} is ${family}`,
    );
  }
  const { chargeMode } = request.billing;
  if (type.isSpot && !isHourly(chargeMode))
    throw new Refusal(
      'field_value',
      `field "billing.chargeMode" is ${JSON.stringify(chargeMode)}, but ${type.name} is a spot type, which may be reclaimed at any time, so it is never paid ahead: send "perHour" or "tidePerHour"`,
    );
  return { type, region: counted.region };
}

function refuseWithoutWindows({ chargeMode, regionId }: InstanceSpec, { regions }: CatalogSnapshot): void {
  const counted = regions.get(regionId);
  if (chargeMode !== 'tidePerHour' || (counted?.offPeak?.windows.length ?? 0) > 0) return;
  throw new Refusal(
    'field_value',
    `field "billing.chargeMode" is tidePerHour, but region ${counted?.region.name ?? regionId} has no off-peak windows; send perHour, or ask an administrator to set "offPeak" of the region`,
  );
}

/** The engine would refuse later, or an engine that ignores runtimes would isolate less. */
export function refuseWithoutRuntime({ name, runtime }: InstanceType, region: Region, regions: Regions): void {
  if (runtime === undefined) return;
  const { probe } = regions.of(region.id).health;
  if (probe === null) {
    const message = `instance type ${name} needs the container runtime ${runtime}, but the engine of region ${region.name} does not answer; try again, or choose another type`;
    throw new Refusal('unavailable', message, { retryAfterS: 10 });
  }
  const { runtimes } = probe.capabilities.isolation;
  if (runtimes.includes(runtime)) return;
  const has = runtimes.length === 0 ? 'none' : runtimes.join(', ');
  const message = `instance type ${name} needs the container runtime ${runtime}, which the engine of region ${region.name} lacks (it has: ${has}); choose another type, or ask the operator to install the runtime`;
  throw new Refusal('unsupported', message);
}

function refuseWithoutDocker(region: Region, regions: Regions): void {
  const drivers = regions.of(region.id);
  const { health } = drivers;
  const capabilities = health.probe?.capabilities;
  if (!capabilities) {
    const message = `field "instanceConfiguration.enableDocker" is true, but the engine of region ${region.name} does not answer, so its support for Docker is unknown; try again, or send false`;
    throw new Refusal('unavailable', message, { retryAfterS: 10 });
  }
  const { whyNoDocker } = dockerSupport(drivers, capabilities);
  if (whyNoDocker !== undefined) {
    const message = `field "instanceConfiguration.enableDocker" is true, but region ${region.name} (${region.engine}) cannot run Docker inside instances: ${whyNoDocker}; send false`;
    throw new Refusal('unsupported', message);
  }
}

function refuseWithoutCommonData(region: Region, { commonDataFolder }: RegionDrivers): void {
  if (commonDataFolder !== null) return;
  const message = `field "instanceConfiguration.enableCommonData" is true, but region ${region.name} (${region.engine}) has no common data, which is a folder of Berth's own machine; send false, and keep the data in a volume`;
  throw new Refusal('unsupported', message);
}

function requestedInstance(
  deps: LaunchDeps,
  caller: Caller,
  request: LaunchInput,
  resolved: { type: InstanceType; image: InstanceSpec['image']; mounts: Mount[]; priceMicros: Micros },
  nowMs: number,
): Instance {
  const { image, mounts, priceMicros } = resolved;
  const { regionId } = resolved.type;
  const type = typeOfSpec(resolved.type, deps.regions.of(regionId).health.probe?.devices);
  const { name, billing, isSpotInstance: isSpot, instanceConfiguration: configuration } = request;
  const columns = {
    id: instanceIdAt(deps.randomUuid(), nowMs),
    ownerId: userId(caller.accountId),
    ownerName: caller.username,
    spec: {
      name,
      regionId,
      image,
      type,
      chargeMode: billing.chargeMode,
      duration: billing.duration,
      autoRenew: billing.autoRenew ?? false,
      resume: billing.resume ?? false,
      isSpot,
      mounts,
      extraDataDiskGB: extraDataDiskGB(type, configuration),
      enableCommonData: configuration.enableCommonData,
      enableDocker: configuration.enableDocker,
      dockerStorageGB: configuration.dockerStorageSize,
      initScript: configuration.initScript,
      cpuOnlyPriceMicros: null,
      startCommand: request.startCommand ?? '',
      runImageCommand: request.runImageCommand ?? false,
    },
    priceMicros,
    nodePorts: withSsh(request.nodePorts).map((port) => ({ port, nodePort: 0 })),
    stopPolicy: deps.firstStopPolicy,
  };
  return newInstance(columns, 'user', nowMs);
}

function extraDataDiskGB(type: InstanceSpec['type'], configuration: LaunchInput['instanceConfiguration']): number {
  const extraGB = requestedExtraGB(type, configuration);
  if (extraGB !== null) return extraGB;
  const { dataDiskGB, extraDataDiskSizeDB } = configuration;
  throw new Refusal(
    'field_value',
    `field "instanceConfiguration.dataDiskGB" is ${dataDiskGB}, and "extraDataDiskSizeDB" is ${extraDataDiskSizeDB}: they exclude each other; send "dataDiskGB" as the total size, or leave it out`,
  );
}

type GivenFields = 'id' | 'ownerId' | 'ownerName' | 'spec' | 'priceMicros' | 'nodePorts' | 'stopPolicy';

/** An instance that is requested to run and not observed yet. */
export const newInstance = (given: Pick<Instance, GivenFields>, cause: Cause, nowMs: number): Instance => ({
  ...given,
  createdAtMs: nowMs,
  desired: 'running',
  generation: FIRST_GENERATION,
  mustHalt: false,
  everEnsured: false,
  rootDisk: 'none',
  filesStale: false,
  attempts: 0,
  requestedAtMs: nowMs,
  initExit: null,
  waitsSinceMs: null,
  waitsUntilMs: null,
  notBeforeMs: null,
  windowEndsAtMs: null,
  reclaimAtMs: null,
  archive: null,
  revision: 0,
  pending: null,
  oldContainer: null,
  unfinished: [],
  diskUsage: noUsage,
  operation: beginOperation('launch', cause, nowMs),
  observed: {
    status: 'Initializing',
    phase: 'Queued',
    diagnosis: '',
    diagnosisMessage: '',
    message: '',
    healthy: false,
    stoppedAtMs: 0,
    runningSinceMs: 0,
    runStartedAtMs: 0,
    ending: null,
    lostGpu: null,
    memoryKills: null,
    countedFromMs: 0,
    progress: null,
    answersBy: 'ssh',
    sshFront: false,
    initFailure: '',
    startExit: null,
    startFailure: '',
    imageNote: '',
    notebook: null,
  },
});
