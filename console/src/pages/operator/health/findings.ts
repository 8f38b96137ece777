/** What an operator should look at, the worst first. Pure: facts in, findings out. */
import type { AnswerOf } from '../../../../../src/contract/routes.ts';

export interface HealthFacts {
  ready: { state: 'ok' | 'degraded' | 'notReady'; text: string };
  regions: AnswerOf<'fleet'>['regions'];
  tasks: AnswerOf<'listTasks'>['tasks'];
  due: AnswerOf<'listTasks'>['due'];
  heldDisks: AnswerOf<'listHeldDisks'>['disks'];
  orphans: AnswerOf<'listStrays'>['strays'];
  webhooks: AnswerOf<'listWebhooks'>['webhooks'];
  /** Scheduled ones. */
  priceChanges: AnswerOf<'listPriceChanges'>['changes'];
  /** Being deleted; empty for those who may not see accounts. */
  deleting: AnswerOf<'listAccounts'>['accounts'];
  nowMs: number;
}

export type Severity = 'bad' | 'warns' | 'tells';

/** Names of sentences, with what each needs. */
export type Finding = { severity: Severity; key: string } & (
  | { kind: 'notReady'; text: string }
  | { kind: 'degraded'; text: string }
  | { kind: 'engineSilent'; region: string; text: string }
  | { kind: 'taskFails'; task: string; error: string; failures: number }
  | { kind: 'taskLate'; task: string; sinceMs: number }
  | { kind: 'poolFull'; region: string; pool: string; share: number }
  | { kind: 'fileSystemFull'; region: string; pool: string; freeGB: number }
  | { kind: 'diskHeld'; disk: string; sinceMs: number; processes: string }
  | { kind: 'webhookOff'; url: string; error: string }
  | { kind: 'webhookFails'; url: string; error: string; attempts: number }
  | { kind: 'drained'; region: string; reason: string; stopsAtMs: number | null }
  | { kind: 'waiting'; region: string; count: number }
  | { kind: 'orphans'; count: number; running: number }
  | { kind: 'priceDue'; atMs: number; count: number }
  | { kind: 'accountEnds'; username: string; accountId: string; atMs: number }
);

const DAY_MS = 86_400_000;
const PRICE_SOON_MS = 3 * DAY_MS;
/** A task that has not begun for so many of its pauses, and for at least a while. */
const LATE_TIMES = 10;
const LATE_MS = 10 * 60_000;
const POOL_FULL = 0.95;
const POOL_NEAR = 0.85;
const FILE_SYSTEM_NEAR = 0.05;

const order: readonly Severity[] = ['bad', 'warns', 'tells'];

export function findingsOf(facts: HealthFacts): Finding[] {
  const findings: Finding[] = [
    ...ofReadiness(facts.ready),
    ...facts.regions.flatMap(ofRegion),
    ...facts.tasks.flatMap((task) => ofTask(task, facts.nowMs)),
    ...facts.due.flatMap(ofDue),
    ...facts.heldDisks.map(({ id, kind, since, processes }): Finding => ({
      severity: 'warns',
      key: `held ${kind} ${id}`,
      kind: 'diskHeld',
      disk: `${kind} ${id}`,
      sinceMs: since,
      processes: processes.map(({ pid, command }) => `${command} (${pid})`).join(', '),
    })),
    ...facts.webhooks.flatMap(ofWebhook),
    ...ofOrphans(facts.orphans),
    ...ofPrices(facts.priceChanges, facts.nowMs),
    ...facts.deleting.flatMap(({ accountId, username, deleteAtUnixMs }): Finding[] =>
      deleteAtUnixMs === null
        ? []
        : [
            {
              severity: 'tells',
              key: `ends ${accountId}`,
              kind: 'accountEnds',
              username,
              accountId,
              atMs: deleteAtUnixMs,
            },
          ],
    ),
  ];
  return findings.toSorted((one, other) => order.indexOf(one.severity) - order.indexOf(other.severity));
}

function ofReadiness({ state, text }: HealthFacts['ready']): Finding[] {
  if (state === 'ok') return [];
  return [{ severity: state === 'degraded' ? 'warns' : 'bad', key: 'ready', kind: state, text }];
}

function ofRegion(region: HealthFacts['regions'][number]): Finding[] {
  const { regionId, regionName, engine, drain, waiting, pools, retired } = region;
  const drained: Finding[] =
    drain === null
      ? []
      : [
          {
            severity: 'tells',
            key: `drain ${regionId}`,
            kind: 'drained',
            region: regionName,
            reason: drain.reason,
            stopsAtMs: drain.stopsAtUnixMs,
          },
        ];
  return [
    ...(engine.answers || retired
      ? []
      : [
          {
            severity: 'bad',
            key: `engine ${regionId}`,
            kind: 'engineSilent',
            region: regionName,
            text: engine.text,
          } satisfies Finding,
        ]),
    ...pools.flatMap(({ name, totalGB, promisedGB, fileSystemGB, fileSystemFreeGB }): Finding[] => {
      const share = totalGB <= 0 ? 0 : promisedGB / totalGB;
      const isLow =
        fileSystemGB !== null && fileSystemFreeGB !== null && fileSystemFreeGB / fileSystemGB < FILE_SYSTEM_NEAR;
      return [
        ...(isLow
          ? [
              {
                severity: 'bad',
                key: `file system ${regionId} ${name}`,
                kind: 'fileSystemFull',
                region: regionName,
                pool: name,
                freeGB: fileSystemFreeGB,
              } satisfies Finding,
            ]
          : []),
        ...(share < POOL_NEAR
          ? []
          : [
              {
                severity: share < POOL_FULL ? 'tells' : 'warns',
                key: `pool ${regionId} ${name}`,
                kind: 'poolFull',
                region: regionName,
                pool: name,
                share,
              } satisfies Finding,
            ]),
      ];
    }),
    ...drained,
    ...(waiting === 0
      ? []
      : [
          {
            severity: 'tells',
            key: `waiting ${regionId}`,
            kind: 'waiting',
            region: regionName,
            count: waiting,
          } satisfies Finding,
        ]),
  ];
}

function ofTask(task: HealthFacts['tasks'][number], nowMs: number): Finding[] {
  const { name, lastError, failures, lastStartedAt, intervalMs, running } = task;
  if (lastError !== null)
    return [{ severity: 'bad', key: `task ${name}`, kind: 'taskFails', task: name, error: lastError, failures }];
  const lateMs = lastStartedAt === null ? 0 : nowMs - lastStartedAt;
  return lastStartedAt !== null && !running && lateMs > Math.max(LATE_MS, LATE_TIMES * intervalMs)
    ? [{ severity: 'warns', key: `task ${name}`, kind: 'taskLate', task: name, sinceMs: lastStartedAt }]
    : [];
}

const ofDue = ({ kind: act, failing }: HealthFacts['due'][number]): Finding[] =>
  failing.map(({ subjectId, error, failures }) => {
    const task = `${act} ${subjectId}`;
    return { severity: 'bad', key: `act ${task}`, kind: 'taskFails', task, error, failures };
  });

function ofWebhook(webhook: HealthFacts['webhooks'][number]): Finding[] {
  const { id, url, enabled, failedAttempts, lastError } = webhook;
  if (failedAttempts === 0) return [];
  const key = `webhook ${id}`;
  return enabled
    ? [{ severity: 'warns', key, kind: 'webhookFails', url, error: lastError, attempts: failedAttempts }]
    : [{ severity: 'bad', key, kind: 'webhookOff', url, error: lastError }];
}

function ofOrphans(orphans: HealthFacts['orphans']): Finding[] {
  if (orphans.length === 0) return [];
  const running = orphans.filter((orphan) => orphan.running).length;
  return [
    { severity: running > 0 ? 'warns' : 'tells', key: 'orphans', kind: 'orphans', count: orphans.length, running },
  ];
}

function ofPrices(changes: HealthFacts['priceChanges'], nowMs: number): Finding[] {
  const soon = changes.filter(({ scheduled, fromUnixMs }) => scheduled && fromUnixMs - nowMs < PRICE_SOON_MS);
  if (soon.length === 0) return [];
  const atMs = Math.min(...soon.map(({ fromUnixMs }) => fromUnixMs));
  return [{ severity: 'tells', key: 'prices', kind: 'priceDue', atMs, count: soon.length }];
}
