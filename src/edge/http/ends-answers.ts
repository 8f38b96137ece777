/** What control knows in milliseconds, as the routes of `src/contract/stop-policy.ts` say it. */
import type { AnswerOf, BodyOf } from '../../contract/routes.ts';
import type { IdleStatus, InstanceStopPolicy } from '../../control/index.ts';
import type { StopPolicyRequest } from '../../domain/stop-policy.ts';
import { idlePolicy } from '../../domain/idle.ts';

const MINUTE_MS = 60_000;
const UNLESS =
  'it is used again, or /instance/keepalive is called, or its idle stop is taken off (/instance/ends, idleStop: null)';

const minutes = (ms: number): number => ms / MINUTE_MS;

export function endsWish({
  stopAtUnixMs,
  maxRunMinutes,
  idleStop,
}: Omit<BodyOf<'ends'>, 'instanceId'>): StopPolicyRequest {
  const { afterMinutes = 0, ...rules } = idleStop ?? {};
  const given = Object.fromEntries(Object.entries(rules).filter(([, value]) => value !== undefined));
  return {
    stopAtMs: stopAtUnixMs,
    maxRunMs: typeof maxRunMinutes === 'number' ? maxRunMinutes * MINUTE_MS : maxRunMinutes,
    idle: idleStop && idlePolicy(afterMinutes * MINUTE_MS, given),
  };
}

export const endsAnswer = ({ instanceId, stopAtMs, maxRunMs, idle, ...at }: InstanceStopPolicy): AnswerOf<'ends'> => ({
  instanceId,
  stopAtUnixMs: stopAtMs,
  maxRunMinutes: maxRunMs === null ? null : minutes(maxRunMs),
  idleStop: idle && {
    afterMinutes: minutes(idle.afterMs),
    ignore: idle.ignore,
    cpuPercent: idle.cpuPercent,
    gpuPercent: idle.gpuPercent,
  },
  keepAliveUntilUnixMs: at.keepAliveUntilMs,
  endsAtUnixMs: at.endsAtMs,
});

export const activityAnswer = (
  instanceId: string,
  { state, because, idleSinceMs, willStopAtMs, lookedAtMs, signals }: IdleStatus,
): AnswerOf<'activity'> => ({
  instanceId,
  state,
  because,
  idleSinceUnixMs: idleSinceMs,
  willStopAtUnixMs: willStopAtMs,
  unless: state === 'idle' ? UNLESS : '',
  lookedAtUnixMs: lookedAtMs,
  signals: signals.map(({ name, says, text, atMs }) => ({ name, says, text, readAtUnixMs: atMs === 0 ? null : atMs })),
});
