/** What ends an instance by itself (a time, its longest run, idleness), and what is seen of its use. All of it ours. */
import { z } from 'zod';
import { id } from './common.ts';

const YEAR_MINUTES = 366 * 24 * 60;
const KEEP_ALIVE_MINUTES = 7 * 24 * 60;
const DEFAULT_KEEP_ALIVE_MINUTES = 60;

/** The rules of `src/domain/idle.ts`, in its order. */
export const idleRules = ['kernel', 'terminal', 'ssh', 'http', 'gpu', 'cpu'] as const;

const minutes = (max: number) => z.number().int().min(1).max(max);
const percent = z.number().int().min(1).max(100);

const idleStop = z.object({
  afterMinutes: minutes(YEAR_MINUTES),
  /** These do not keep it. */
  ignore: z
    .array(z.enum(idleRules))
    .refine((rules) => new Set(rules).size === rules.length && rules.length < idleRules.length, {
      error: `must name each rule once, and leave at least one of ${idleRules.join(', ')}`,
    })
    .optional(),
  /** Of one CPU. */
  cpuPercent: percent.optional(),
  /** Of its busiest GPU. */
  gpuPercent: percent.optional(),
});

/** What is left out stays; null takes off. */
export const endsRequest = z.object({
  instanceId: id,
  /** Whether it is a time to come depends on the server's clock: control decides. */
  stopAtUnixMs: z.number().int().min(0).nullable().optional(),
  maxRunMinutes: minutes(YEAR_MINUTES).nullable().optional(),
  idleStop: idleStop.nullable().optional(),
});

export const endsAnswer = z.strictObject({
  instanceId: z.string(),
  stopAtUnixMs: z.number().int().nullable(),
  maxRunMinutes: z.number().nullable(),
  idleStop: z
    .strictObject({
      afterMinutes: z.number(),
      ignore: z.array(z.enum(idleRules)),
      cpuPercent: z.number(),
      gpuPercent: z.number(),
    })
    .nullable(),
  /** Until then idleness stops nothing; null: no keep-alive call holds it. */
  keepAliveUntilUnixMs: z.number().int().nullable(),
  /** When the clock stops it, of all this; null while nothing does, or it does not run. */
  endsAtUnixMs: z.number().int().nullable(),
});

export const keepAliveRequest = z.object({
  instanceId: id,
  /** 0 takes an earlier call back. */
  minutes: z.number().int().min(0).max(KEEP_ALIVE_MINUTES).default(DEFAULT_KEEP_ALIVE_MINUTES),
});
export const keepAliveAnswer = z.strictObject({
  instanceId: z.string(),
  keepAliveUntilUnixMs: z.number().int().nullable(),
});

export const activityAnswer = z.strictObject({
  instanceId: z.string(),
  /** `off`: idleness does not stop it now. `unknown`: not all could be read, and so nothing counts as idle. */
  state: z.enum(['active', 'idle', 'unknown', 'off']),
  because: z.string(),
  idleSinceUnixMs: z.number().int().nullable(),
  willStopAtUnixMs: z.number().int().nullable(),
  /** What would keep it. */
  unless: z.string(),
  lookedAtUnixMs: z.number().int().nullable(),
  signals: z.array(
    z.strictObject({
      name: z.enum(['keepAlive', ...idleRules]),
      says: z.enum(['active', 'idle', 'stale']),
      text: z.string(),
      /** Null: it could not be read. */
      readAtUnixMs: z.number().int().nullable(),
    }),
  ),
});
