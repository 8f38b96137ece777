/** Converts between bodies of routes and control's types. */
import { MAX_OUTPUT_BYTES } from '../../contract/exec.ts';
import type { PublicLogLine } from '../../contract/log.ts';
import type { AnswerOf, BodyOf } from '../../contract/routes.ts';
import type {
  Commands,
  FleetRegion,
  IdleStatus,
  InstanceFigures,
  InstanceMetrics,
  InstanceStopPolicy,
  LogPage,
  LogRequest,
  ShareInfo,
  Terminals,
} from '../../control/index.ts';
import { toDollars } from '../../domain/regions/catalog.ts';
import type { Drain } from '../../domain/regions/drain.ts';
import { MINUTE_MS } from '../../domain/kernel/durations.ts';
import { idlePolicy } from '../../domain/compute/idle.ts';
import {
  type FigureName,
  type GpuFigureName,
  type MetricsValues,
  figureNames,
  gpuFigureNames,
} from '../../domain/compute/metrics.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import type { StopPolicyRequest } from '../../domain/compute/stop-policy.ts';

const UNLESS =
  'the instance is used again, /instance/keepalive is called, or the idle stop is removed (/instance/ends, idleStop: null)';

export function stopPolicyOf(body: Omit<BodyOf<'ends'>, 'instanceId'>): StopPolicyRequest {
  const { stopAtUnixMs, maxRunMinutes, idleStop } = body;
  const { afterMinutes = 0, ...rules } = idleStop ?? {};
  const given = Object.fromEntries(Object.entries(rules).filter(([, value]) => value !== undefined));
  return {
    stopAtMs: stopAtUnixMs,
    maxRunMs: typeof maxRunMinutes === 'number' ? maxRunMinutes * MINUTE_MS : maxRunMinutes,
    idle: idleStop && idlePolicy(afterMinutes * MINUTE_MS, given),
  };
}

export const presentStopPolicy = ({
  instanceId,
  stopAtMs,
  maxRunMs,
  idle,
  ...at
}: InstanceStopPolicy): AnswerOf<'ends'> => ({
  instanceId,
  stopAtUnixMs: stopAtMs,
  maxRunMinutes: maxRunMs === null ? null : maxRunMs / MINUTE_MS,
  idleStop: idle && {
    afterMinutes: idle.afterMs / MINUTE_MS,
    ignore: idle.ignore,
    cpuPercent: idle.cpuPercent,
    gpuPercent: idle.gpuPercent,
  },
  keepAliveUntilUnixMs: at.keepAliveUntilMs,
  endsAtUnixMs: at.endsAtMs,
});

export const presentIdleStatus = (
  instanceId: string,
  { state, because, idleSinceMs, willStopAtMs, checkedAtMs, signals }: IdleStatus,
): AnswerOf<'activity'> => ({
  instanceId,
  state,
  because,
  idleSinceUnixMs: idleSinceMs,
  willStopAtUnixMs: willStopAtMs,
  unless: state === 'idle' ? UNLESS : '',
  lookedAtUnixMs: checkedAtMs,
  signals: signals.map(({ name, says, text, atMs }) => ({ name, says, text, readAtUnixMs: atMs === 0 ? null : atMs })),
});

export const presentDrain = (drain: Drain | null): AnswerOf<'drainRegion'>['drain'] =>
  drain && { reason: drain.reason, sinceUnixMs: drain.sinceMs, stopsAtUnixMs: drain.stopAtMs };

const GIB_IN_MIB = 1_024;
const rounded = (amount: number, decimals = 3): number => Math.round(amount * 10 ** decimals) / 10 ** decimals;

export function presentFleetRegion({
  region,
  isRetired,
  drain,
  resources,
  hosts,
  gpus,
  pools,
  types,
  ...rest
}: FleetRegion): AnswerOf<'fleet'>['regions'][number] {
  const inUnits = ({ total, promised, free, used }: FleetRegion['resources']['gpus'], perUnit: number) => ({
    total: rounded(total / perUnit),
    promised: rounded(promised / perUnit),
    free: rounded(free / perUnit),
    used: used === null ? null : rounded(used / perUnit),
  });
  return {
    regionId: region.id,
    regionName: region.name,
    retired: isRetired,
    drain: presentDrain(drain),
    ...rest,
    cpuCores: inUnits(resources.cpuMilli, 1_000),
    memoryGB: inUnits(resources.memoryMiB, GIB_IN_MIB),
    gpuNum: inUnits(resources.gpus, 1),
    nodePorts: inUnits(resources.nodePorts, 1),
    largestHosts: (hosts ?? []).map(({ cpuMilli, memoryMiB, gpus: gpuNum, gpuName }) => ({
      cpuCores: rounded(cpuMilli / 1_000),
      memoryGB: rounded(memoryMiB / GIB_IN_MIB),
      gpuNum,
      gpuName,
    })),
    gpus: gpus.map(({ model, holder, isExact, busyPercent }, index) => ({
      index,
      model,
      holder: holder && {
        instanceId: holder.instanceId,
        name: holder.name,
        accountId: holder.ownerId,
        username: holder.ownerName,
      },
      holderIsExact: isExact,
      busyPercent,
    })),
    pools: pools.map(({ fileSystem, ...pool }) => ({
      name: pool.name,
      totalGB: rounded(pool.totalGB),
      promisedGB: rounded(pool.promisedGB),
      freeGB: rounded(pool.freeGB),
      usedGB: rounded(pool.usedGB),
      fileSystemGB: fileSystem && rounded(fileSystem.totalGB),
      fileSystemFreeGB: fileSystem && rounded(fileSystem.freeGB),
    })),
    types: types.map(({ type, fitsNow }) => ({
      instanceTypeId: type.id,
      instanceTypeName: type.name,
      gpuNum: type.gpuCount,
      gpuName: type.gpuName,
      isSpot: type.isSpot,
      fitsNow,
    })),
  };
}

type Share = AnswerOf<'listShares'>['shares'][number];

export const presentShare = ({ createdAtMs, expiresAtMs, ...share }: ShareInfo): Share => ({
  ...share,
  createdAtUnixMs: createdAtMs,
  expiresAtUnixMs: expiresAtMs,
});

type Run = Commands['run'];

export function commandOf({ stdin, encoding, timeoutSeconds, ...command }: BodyOf<'exec'>): Parameters<Run>[1] {
  return {
    ...command,
    stdin: bytesOf(stdin, encoding),
    limitMs: timeoutSeconds * 1_000,
    maxOutputBytes: MAX_OUTPUT_BYTES,
  };
}

function bytesOf(text: string, encoding: BodyOf<'exec'>['encoding']): Buffer {
  const bytes = Buffer.from(text, encoding);
  // Node skips invalid base64 and would return other bytes.
  if (encoding === 'base64' && bytes.toString('base64') !== text)
    throw new Refusal('field_value', 'field "stdin" must be base64 with its padding, as the field "encoding" says');
  return bytes;
}

export function presentCommandResult(
  { encoding }: Pick<BodyOf<'exec'>, 'encoding'>,
  { exitCode, stdout, stderr, timedOut }: Awaited<ReturnType<Run>>,
): AnswerOf<'exec'> {
  return {
    exitCode,
    stdout: stdout.bytes.toString(encoding),
    stderr: stderr.bytes.toString(encoding),
    stdoutCut: stdout.cut,
    stderrCut: stderr.cut,
    timedOut,
  };
}

type Listed = Awaited<ReturnType<Terminals['list']>>[number];
type Terminal = AnswerOf<'listTerminals'>['terminals'][number];

export const presentTerminal = ({ name, createdAtMs, closesAtMs, ...rest }: Listed): Terminal => ({
  terminal: name,
  ...rest,
  createdAtUnixMs: createdAtMs,
  closesAtUnixMs: closesAtMs,
});

type LogStart = Pick<BodyOf<'logs'>, 'after' | 'tail' | 'sinceUnixMs'>;

export function fromOf({ after, tail, sinceUnixMs }: LogStart): LogRequest['from'] {
  if (after !== undefined) return { after };
  if (tail !== undefined) return { tail };
  return sinceUnixMs === undefined ? { beginning: true } : { sinceMs: sinceUnixMs };
}

export const presentLogLine = ({ atMs, text, cut }: LogPage['lines'][number]): PublicLogLine => ({
  atUnixMs: atMs,
  text,
  cut,
});

type MetricsAnswer = AnswerOf<'metrics'>;

const figure = (values: MetricsValues | undefined, at: number): number | null => {
  const value = values?.[at] ?? Number.NaN;
  return Number.isNaN(value) ? null : value;
};

export function presentMetrics(instanceId: string, metrics: InstanceMetrics): MetricsAnswer {
  const { fromMs, toMs, stepMs, steps, gpuCount } = metrics;
  const seriesAt = (at: number) => ({
    mean: steps.map((step) => figure(step?.mean, at)),
    max: steps.map((step) => figure(step?.max, at)),
  });
  const gpu = (nth: number) => {
    const first = figureNames.length + nth * gpuFigureNames.length;
    return eachGpuFigure((name) => seriesAt(first + gpuFigureNames.indexOf(name)));
  };
  return {
    instanceId,
    fromUnixMs: fromMs,
    toUnixMs: toMs,
    stepSeconds: stepMs / 1000,
    series: {
      ...eachFigure((name) => seriesAt(figureNames.indexOf(name))),
      gpus: Array.from({ length: gpuCount }, (_, nth) => gpu(nth)),
    },
    now: nowOf(metrics),
  };
}

export const presentFigures = ({
  instanceId,
  costTodayMicros,
  costSoFarMicros,
  fromMs,
  stepMs,
  ...loads
}: InstanceFigures): AnswerOf<'instanceFigures'>['figures'][number] => ({
  instanceId,
  costToday: toDollars(costTodayMicros),
  costSoFar: toDollars(costSoFarMicros),
  fromUnixMs: fromMs,
  stepSeconds: stepMs / 1000,
  ...loads,
});

function nowOf({ now, cpuLimitMilli, gpuCount }: InstanceMetrics): MetricsAnswer['now'] {
  if (now === null) return null;
  const { memoryLimitBytes, processLimit, gpus } = now.usage;
  return {
    atUnixMs: now.atMs,
    ...eachFigure((name) => figure(now.span.mean, figureNames.indexOf(name))),
    cpuLimitMilli,
    memoryLimitBytes,
    processLimit,
    gpus: gpuCount === 0 ? [] : (gpus?.map(({ deviceId: _device, ...figures }) => figures) ?? null),
  };
}

const eachFigure = <Of>(of: (name: FigureName) => Of): Record<FigureName, Of> => ({
  cpuMilli: of('cpuMilli'),
  memoryBytes: of('memoryBytes'),
  receivedBytesPerSecond: of('receivedBytesPerSecond'),
  sentBytesPerSecond: of('sentBytesPerSecond'),
  readBytesPerSecond: of('readBytesPerSecond'),
  writtenBytesPerSecond: of('writtenBytesPerSecond'),
  processes: of('processes'),
});

const eachGpuFigure = <Of>(of: (name: GpuFigureName) => Of): Record<GpuFigureName, Of> => ({
  busyPercent: of('busyPercent'),
  memoryUsedBytes: of('memoryUsedBytes'),
  powerMilliwatts: of('powerMilliwatts'),
  temperatureCelsius: of('temperatureCelsius'),
});
