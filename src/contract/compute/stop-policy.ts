/** Stop policy of an instance (time, maximum run, idleness) and its observed activity. */
import { z } from 'zod';
import { idleStates, ruleNames, signalNames, signalVerdicts } from '../../domain/compute/idle.ts';
import { answer, decimal, id, instanceIdBody, integerOrNull, request, text, wholeNumber } from '../common.ts';
import { jsonRoute, readRoute } from '../route.ts';

const YEAR_MINUTES = 366 * 24 * 60;
const KEEP_ALIVE_MINUTES = 7 * 24 * 60;
const DEFAULT_KEEP_ALIVE_MINUTES = 60;

const minutes = (max: number) => wholeNumber(1, max);
const percent = wholeNumber(1, 100);

const idleStop = request('IdleStopRequest', {
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
});

/** Control checks `stopAtUnixMs`, which depends on the server's clock. */
export const endsRequest = request(
  'StopPolicyRequest',
  {
    instanceId: id.describe('Instance ID'),
    stopAtUnixMs: z.number().int().min(0).nullable().describe('Stop time, Unix milliseconds').optional(),
    maxRunMinutes: minutes(YEAR_MINUTES).nullable().describe('Longest run in minutes').optional(),
    idleStop: idleStop.nullable().describe('Stop on idleness').optional(),
  },
  'A field left out keeps its value; null removes it',
);

const idleStopAnswer = answer('IdleStop', {
  afterMinutes: decimal('Idle minutes before the stop'),
  ignore: z.array(z.enum(ruleNames)).meta({ uniqueItems: true }).describe('Signals that do not count as use'),
  cpuPercent: decimal('Use begins at this share of one CPU'),
  gpuPercent: decimal('Use begins at this share of the busiest GPU'),
});
export const endsAnswer = answer('StopPolicy', {
  instanceId: text('Instance ID'),
  stopAtUnixMs: integerOrNull('Stop time, Unix milliseconds; null without one'),
  maxRunMinutes: z.number().nullable().describe('Longest run in minutes; null without a limit'),
  idleStop: idleStopAnswer.nullable().describe('Stop on idleness; null if it is off'),
  keepAliveUntilUnixMs: integerOrNull(
    'No idle stop before this time, Unix milliseconds; null without a keep-alive call',
  ),
  endsAtUnixMs: integerOrNull('Next stop by the clock, Unix milliseconds; null without one or while it does not run'),
});

export const keepAliveRequest = request('KeepAliveRequest', {
  instanceId: id.describe('Instance ID'),
  minutes: wholeNumber(0, KEEP_ALIVE_MINUTES)
    .default(DEFAULT_KEEP_ALIVE_MINUTES)
    .describe('Minutes without an idle stop; 0 cancels an earlier call'),
});
export const keepAliveAnswer = answer('KeepAliveAnswer', {
  instanceId: text('Instance ID'),
  keepAliveUntilUnixMs: integerOrNull('No idle stop before this time, Unix milliseconds'),
});

const signal = answer('ActivitySignal', {
  name: z.enum(signalNames).describe('Signal'),
  says: z.enum(signalVerdicts).describe('Verdict; `stale`: too old to count'),
  text: text('Explanation'),
  readAtUnixMs: integerOrNull('Time of the reading, Unix milliseconds; null if it failed'),
});
export const activityAnswer = answer('Activity', {
  instanceId: text('Instance ID'),
  state: z
    .enum(idleStates)
    .describe('`off`: no idle stop; `unknown`: a signal is missing, so the instance does not count as idle'),
  because: text('Explanation of the state'),
  idleSinceUnixMs: integerOrNull('Start of the idleness, Unix milliseconds; null if not idle'),
  willStopAtUnixMs: integerOrNull('Time of the idle stop, Unix milliseconds; null without one'),
  unless: text('Ways to prevent the stop; empty if none is due'),
  lookedAtUnixMs: integerOrNull('Time of the last check, Unix milliseconds; null before the first'),
  signals: z.array(signal).describe('All signals'),
});

export const stopPolicyRoutes = {
  ends: jsonRoute('/instance/ends', endsRequest, endsAnswer, {
    summary:
      'Set and return the stop policy of an instance: a field left out stays, null removes it. A start removes a stopAtUnixMs in the past',
    source: 'ours; docs/interface.md §2.1 has scheduledStopTimestamp',
  }),
  activity: readRoute('/instance/activity', instanceIdBody, activityAnswer, {
    summary: 'Return whether an instance is in use, by which signal, and the time of its idle stop',
  }),
} as const;

export const keepAliveRoutes = {
  keepAlive: jsonRoute('/instance/keepalive', keepAliveRequest, keepAliveAnswer, {
    summary: 'Prevent an idle stop for some minutes; programs inside the instance may call it with an API key',
  }),
} as const;
