/** Stop policy of an instance (time, maximum run, idleness) and its observed activity. */
import { z } from 'zod';
import { ruleNames, signalNames } from '../domain/idle.ts';
import { decimal, id, named, text } from './common.ts';

const YEAR_MINUTES = 366 * 24 * 60;
const KEEP_ALIVE_MINUTES = 7 * 24 * 60;
const DEFAULT_KEEP_ALIVE_MINUTES = 60;

const minutes = (max: number) => z.number().int().min(1).max(max);
const percent = z.number().int().min(1).max(100);
const timeOrNull = (description: string) => z.number().int().nullable().describe(description);

const idleStop = named(
  'IdleStopRequest',
  z.object({
    afterMinutes: minutes(YEAR_MINUTES).describe('Idle minutes before the stop'),
    ignore: z
      .array(z.enum(ruleNames))
      .refine((rules) => new Set(rules).size === rules.length && rules.length < ruleNames.length, {
        error: `must name each rule once, and leave at least one of ${ruleNames.join(', ')}`,
      })
      .meta({ uniqueItems: true, maxItems: ruleNames.length - 1 })
      .describe('Signals that do not count as use')
      .optional(),
    cpuPercent: percent.describe('Use begins at this share of one CPU').optional(),
    gpuPercent: percent.describe('Use begins at this share of the busiest GPU').optional(),
  }),
);

/** Control checks `stopAtUnixMs`, which depends on the server's clock. */
export const endsRequest = named(
  'StopPolicyRequest',
  z.object({
    instanceId: id.describe('Instance ID'),
    stopAtUnixMs: z.number().int().min(0).nullable().describe('Stop time, Unix milliseconds').optional(),
    maxRunMinutes: minutes(YEAR_MINUTES).nullable().describe('Longest run in minutes').optional(),
    idleStop: idleStop.nullable().describe('Stop on idleness').optional(),
  }),
  'A field left out keeps its value; null removes it',
);

const idleStopAnswer = named(
  'IdleStop',
  z.strictObject({
    afterMinutes: decimal('Idle minutes before the stop'),
    ignore: z.array(z.enum(ruleNames)).describe('Signals that do not count as use'),
    cpuPercent: decimal('Use begins at this share of one CPU'),
    gpuPercent: decimal('Use begins at this share of the busiest GPU'),
  }),
);
export const endsAnswer = named(
  'StopPolicy',
  z.strictObject({
    instanceId: text('Instance ID'),
    stopAtUnixMs: timeOrNull('Stop time, Unix milliseconds; null without one'),
    maxRunMinutes: z.number().nullable().describe('Longest run in minutes; null without a limit'),
    idleStop: idleStopAnswer.nullable().describe('Stop on idleness; null if it is off'),
    keepAliveUntilUnixMs: timeOrNull(
      'No idle stop before this time, Unix milliseconds; null without a keep-alive call',
    ),
    endsAtUnixMs: timeOrNull('Next stop by the clock, Unix milliseconds; null without one or while it does not run'),
  }),
);

export const keepAliveRequest = named(
  'KeepAliveRequest',
  z.object({
    instanceId: id.describe('Instance ID'),
    minutes: z
      .number()
      .int()
      .min(0)
      .max(KEEP_ALIVE_MINUTES)
      .default(DEFAULT_KEEP_ALIVE_MINUTES)
      .describe('Minutes without an idle stop; 0 cancels an earlier call'),
  }),
);
export const keepAliveAnswer = named(
  'KeepAliveAnswer',
  z.strictObject({
    instanceId: text('Instance ID'),
    keepAliveUntilUnixMs: timeOrNull('No idle stop before this time, Unix milliseconds'),
  }),
);

const signal = named(
  'ActivitySignal',
  z.strictObject({
    name: z.enum(signalNames).describe('Signal'),
    says: z.enum(['active', 'idle', 'stale']).describe('Verdict; `stale`: too old to count'),
    text: text('Explanation'),
    readAtUnixMs: timeOrNull('Time of the reading, Unix milliseconds; null if it failed'),
  }),
);
export const activityAnswer = named(
  'Activity',
  z.strictObject({
    instanceId: text('Instance ID'),
    state: z
      .enum(['active', 'idle', 'unknown', 'off'])
      .describe('`off`: no idle stop; `unknown`: a signal is missing, so the instance does not count as idle'),
    because: text('Explanation of the state'),
    idleSinceUnixMs: timeOrNull('Start of the idleness, Unix milliseconds; null if not idle'),
    willStopAtUnixMs: timeOrNull('Time of the idle stop, Unix milliseconds; null without one'),
    unless: text('Ways to prevent the stop; empty if none is due'),
    lookedAtUnixMs: timeOrNull('Time of the last check, Unix milliseconds; null before the first'),
    signals: z.array(signal).describe('All signals'),
  }),
);
