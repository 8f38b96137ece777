/** Schemas of JSON columns. Outputs are the domain types, so a missing member doesn't compile. */
import { scopes, type Scope } from '../../domain/access/scopes.ts';
import type { TypePlacement } from '../../domain/regions/node-placement.ts';
import { secondFactors, type SecondFactor } from '../../domain/access/second-factor.ts';
import { z } from 'zod';
import { meters } from '../../domain/money/meter.ts';
import type { GrantScope } from '../../domain/money/purse.ts';
import { chargeModes, storageKinds, type GpuCounts, type Supply } from '../../domain/regions/catalog.ts';
import { egressProtocols, type EgressPolicy } from '../../domain/regions/egress.ts';
import type { Drain } from '../../domain/regions/drain.ts';
import { diskKinds, poolNames, type DiskUsage } from '../../domain/storage/disk.ts';
import { ruleNames } from '../../domain/compute/idle.ts';
import { imageId, instanceTypeId, regionId, volumeId } from '../../domain/kernel/ids.ts';
import { diagnoses, instanceStatuses, phases, type Diagnosis } from '../../domain/compute/instance-states.ts';
import { readinessProofs } from '../../domain/compute/instance.ts';
import { notebookStates } from '../../domain/compute/notebook-state.ts';
import type {
  Archive,
  ContainerShape,
  InstanceSpec,
  NodePort,
  Observed,
  PendingChange,
} from '../../domain/compute/instance.ts';
import { weekdays, type OffPeak } from '../../domain/regions/off-peak.ts';
import { portAccesses } from '../../domain/access/port-access.ts';
import {
  operationCauses,
  operationKinds,
  operationStates,
  progressUnits,
  stageNames,
} from '../../domain/compute/operation.ts';
import type { Operation, Progress } from '../../domain/compute/operation.ts';
import type { RegionSettings } from '../../domain/regions/region-settings.ts';
import { wakers, type WakePolicy } from '../../domain/compute/wake.ts';
import type { StopPolicy } from '../../domain/compute/stop-policy.ts';
import { volumeSourceKinds, type VolumeSource } from '../../domain/storage/volume.ts';
import { keysOf, parseJson } from '../db/columns.ts';

export const texts: z.ZodType<string[]> = z.array(z.string());

const progress: z.ZodType<Progress> = z.object({
  done: z.number(),
  total: z.number(),
  unit: z.enum(progressUnits),
});

export const operation: z.ZodType<Operation> = z.object({
  kind: z.enum(operationKinds),
  cause: z.enum(operationCauses),
  startedAtMs: z.number(),
  endedAtMs: z.number().nullable(),
  state: z.enum(operationStates),
  stages: z.array(
    z.object({
      name: z.enum(stageNames),
      startedAtMs: z.number(),
      endedAtMs: z.number().nullable(),
      progress: progress.nullable(),
    }),
  ),
  error: z.object({ reason: z.string(), message: z.string(), whatToDo: z.string() }).nullable(),
  reason: z.string().exactOptional(),
});

const cpuOnlyPriceMicros = z.number().nullable().default(null);

export const sizedSpec = z.object({
  isSpot: z.boolean().default(false),
  type: z.object({
    cpuCores: z.number(),
    memoryGB: z.number(),
    gpuCount: z.number(),
    gpuName: z.string(),
    gpuShare: z.number().exactOptional(),
  }),
  cpuOnlyPriceMicros,
});

export const specWithImage = z.object({ image: z.object({ id: z.string() }) });

export const typePlacement: z.ZodType<TypePlacement> = z.object({
  nodeSelector: z.record(z.string(), z.string()).exactOptional(),
  nodeAffinity: z
    .array(
      z.object({
        key: z.string(),
        operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']),
        values: texts.exactOptional(),
      }),
    )
    .exactOptional(),
  tolerations: z
    .array(
      z.object({
        key: z.string().exactOptional(),
        operator: z.enum(['Equal', 'Exists']).exactOptional(),
        value: z.string().exactOptional(),
        effect: z.enum(['NoSchedule', 'PreferNoSchedule', 'NoExecute']).exactOptional(),
      }),
    )
    .exactOptional(),
  priorityClass: z.string().exactOptional(),
});

const typeOfSpec = z.object({
  id: z.string().transform(instanceTypeId),
  name: z.string(),
  isSpot: z.boolean(),
  cpuCores: z.number(),
  cpuType: z.string(),
  memoryGB: z.number(),
  gpuCount: z.number(),
  gpuName: z.string(),
  gpuShare: z.number().exactOptional(),
  rootDiskGB: z.number(),
  dataDiskGB: z.number(),
  runtime: z.string().exactOptional(),
  placement: typePlacement.exactOptional(),
});

const mounts = z.array(
  z.object({
    mountPath: z.string(),
    volumeId: z.string().transform(volumeId),
    volumeName: z.string(),
    volumeType: z.string(),
  }),
);

export const instanceSpec: z.ZodType<InstanceSpec> = z.object({
  name: z.string(),
  regionId: z.string().transform(regionId),
  image: z.object({
    id: z.string().transform(imageId),
    name: z.string(),
    ref: z.string(),
    architecture: z.string(),
    isPublic: z.boolean(),
    tags: texts,
    type: z.string(),
  }),
  type: typeOfSpec,
  chargeMode: z.enum(chargeModes),
  duration: z.number(),
  autoRenew: z.boolean().default(false),
  resume: z.boolean().default(false),
  isSpot: z.boolean(),
  mounts,
  extraDataDiskGB: z.number(),
  enableCommonData: z.boolean(),
  enableDocker: z.boolean(),
  dockerStorageGB: z.number(),
  initScript: z.string(),
  cpuOnlyPriceMicros,
  startCommand: z.string().default(''),
  runImageCommand: z.boolean().default(false),
});

export const nodePorts: z.ZodType<NodePort[]> = z.array(z.object({ port: z.number(), nodePort: z.number() }));

export const pending: z.ZodType<PendingChange> = z.object({
  resize: z.object({ type: typeOfSpec, priceMicros: z.number() }).exactOptional(),
  mounts: mounts.exactOptional(),
  ports: z.array(z.number()).exactOptional(),
});

export const containerShape: z.ZodType<ContainerShape> = z.object({
  mounts,
  nodePorts,
  gpus: z.number(),
  gpuName: z.string().exactOptional(),
  runtime: z.string(),
  rootDiskGB: z.number(),
});

export const reservePerGpu: z.ZodType<NonNullable<Supply['reservePerGpu']>> = z.record(
  z.string(),
  z.object({ cpuMilli: z.number(), memoryMiB: z.number() }),
);

export const gpuCounts: z.ZodType<GpuCounts> = z.record(z.string(), z.number());

const diagnosis: z.ZodType<Diagnosis> = z.enum(keysOf(diagnoses));

export const observed: z.ZodType<Observed> = z.object({
  status: z.enum(instanceStatuses),
  phase: z.enum(phases),
  diagnosis,
  diagnosisMessage: z.string(),
  message: z.string(),
  healthy: z.boolean(),
  stoppedAtMs: z.number(),
  runningSinceMs: z.number(),
  runStartedAtMs: z.number().default(0),
  ending: z.object({ byMs: z.number(), refundFor: diagnosis, priceMicros: z.number() }).nullable().default(null),
  lostGpu: z
    .object({ runStartedAtMs: z.number(), sinceMs: z.number(), priceMicros: z.number() })
    .nullable()
    .default(null),
  memoryKills: z.object({ runStartedAtMs: z.number(), count: z.number(), atMs: z.number() }).nullable().default(null),
  countedFromMs: z.number(),
  answersBy: z.enum(readinessProofs),
  sshFront: z.boolean(),
  initFailure: z.string().default(''),
  startExit: z.number().nullable().default(null),
  startFailure: z.string().default(''),
  imageNote: z.string().default(''),
  notebook: z
    .object({
      state: z.enum(notebookStates),
      text: z.string(),
      exit: z.number().nullable(),
      endedAtMs: z.number(),
      endedKernels: z.number(),
    })
    .nullable()
    .default(null),
  progress: progress.nullable(),
});

export const stopPolicy: z.ZodType<StopPolicy> = z.object({
  stopAtMs: z.number().nullable(),
  maxRunMs: z.number().nullable(),
  idle: z
    .object({
      afterMs: z.number(),
      ignore: z.array(z.enum(ruleNames)),
      cpuPercent: z.number(),
      gpuPercent: z.number(),
    })
    .nullable(),
  keepAliveUntilMs: z.number(),
});

export const archive: z.ZodType<Archive> = z.object({
  ref: z.string(),
  sizeBytes: z.number(),
  generation: z.number(),
  replaces: texts,
});

export const diskUsage: z.ZodType<DiskUsage> = z.object({
  rootBytes: z.number(),
  dataBytes: z.number(),
  dockerBytes: z.number(),
  rootWarnedPercent: z.number(),
  full: z.array(
    z.object({
      disk: z.enum(['root', ...diskKinds]),
      mountPath: z.string(),
      percent: z.number(),
      biggest: z.array(z.object({ path: z.string(), bytes: z.number() })),
    }),
  ),
});

export const volumeSource: z.ZodType<VolumeSource> = z.object({ kind: z.enum(volumeSourceKinds), id: z.string() });

export const wakePolicy: z.ZodType<WakePolicy> = z.object({
  by: z.enum(wakers),
  visitorsPerDay: z.number(),
  visitorWakesAtMs: z.array(z.number()),
});

export const accessByPort = z.record(z.string(), z.enum(portAccesses));

export const formerNames = z.array(z.object({ name: z.string(), untilMs: z.number() }));

export const drain: z.ZodType<Drain> = z.object({
  reason: z.string(),
  sinceMs: z.number(),
  stopAtMs: z.number().nullable(),
});

/** `Usage` of an account, by the names of quotas. */
export const labelsColumn = z.record(z.string(), z.string());
export const usageColumn = z.record(z.string(), z.number());
const egressPolicy: z.ZodType<EgressPolicy> = z.discriminatedUnion('mode', [
  z.object({ mode: z.literal('open') }),
  z.object({ mode: z.literal('none') }),
  z.object({
    mode: z.literal('list'),
    allow: z.array(
      z.object({ cidr: z.string(), ports: texts.optional(), protocol: z.enum(egressProtocols).optional() }),
    ),
  }),
]);

export const parseEgress = (text: string, holder: string): EgressPolicy =>
  parseJson(egressPolicy, text, { table: 'egress', id: holder, column: 'policy' });

export const offPeakSchema: z.ZodType<OffPeak> = z.object({
  timeZone: z.string(),
  windows: z.array(z.object({ days: z.array(z.enum(weekdays)), start: z.string(), end: z.string() })),
});

const settingsOfRegion = z.looseObject({
  simulated: z.looseObject({}).optional(),
  kubernetes: z.looseObject({}).optional(),
  pools: z.array(z.looseObject({ name: z.enum(poolNames), sizeGB: z.number() })),
  nodePorts: z.object({ first: z.number(), last: z.number() }),
});
/** Members of the engine are those of the contract, which validated them. */
export const regionSettings = z.custom<RegionSettings>((value) => settingsOfRegion.safeParse(value).success);

export const priceList = z.record(z.enum(chargeModes), z.number());
export const storagePriceList = z.record(z.enum(storageKinds), z.number());

/** Metrics spans in compact form: null is a figure that was not read. */
const figures = z.array(z.number().nullable());

const metricsSamples = z.array(z.tuple([z.string()], z.tuple([z.number()], z.number().nullable())));

const metricsMinutes = z.array(z.tuple([z.number(), figures, figures]));

/** JWK of an Ed25519 key; a public key has no `d`. */
const signingKey = z.looseObject({ kty: z.string(), crv: z.string(), x: z.string(), d: z.string().exactOptional() });

export const parseSigningKey = (text: string, kid: string, column: 'privateJwk' | 'publicJwk') =>
  parseJson(signingKey, text, { table: 'signingKey', id: kid, column });

export const parseMetricsSamples = (text: string, row: string): z.infer<typeof metricsSamples> =>
  parseJson(metricsSamples, text, { table: 'metricMinute', id: row, column: 'body' });

export const parseMetricsMinutes = (text: string, row: string): z.infer<typeof metricsMinutes> =>
  parseJson(metricsMinutes, text, { table: 'metricHour', id: row, column: 'body' });

export const parseOperation = (text: string, table: string, id: string): Operation =>
  parseJson(operation, text, { table, id, column: 'operation' });

export const parseTags = (text: string, imageRow: string): string[] =>
  parseJson(texts, text, { table: 'image', id: imageRow, column: 'tags' });

export const parseKeyScopes = (text: string, apiKey: string): Scope[] =>
  parseJson(z.array(z.enum(scopes)), text, { table: 'apiKey', id: apiKey, column: 'scopes' });

export const parseKeyAddresses = (text: string, apiKey: string): string[] =>
  parseJson(texts, text, { table: 'apiKey', id: apiKey, column: 'addresses' });

export const parseRoles = (text: string, account: string): string[] =>
  parseJson(texts, text, { table: 'account', id: account, column: 'roles' });

export const parseSecondFactors = (text: string, account: string): SecondFactor[] =>
  parseJson(z.array(z.enum(secondFactors)), text, { table: 'account', id: account, column: 'secondFactors' });

export const grantScope: z.ZodType<GrantScope> = z.object({
  regionId: z.string().exactOptional(),
  instanceTypeId: z.string().exactOptional(),
  meter: z.enum(meters).exactOptional(),
});
