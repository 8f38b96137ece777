/**
 * # Orphans
 *
 * An engine object with our label but without a row: left by a lost database, a restored backup or
 * a superseded save. Two sweeps in a row confirm an orphan. An operator may adopt, stop or delete
 * one; until then the policy decides, but never deletes data. Retention counts watched time, so
 * neither a clock step nor an outage brings a deletion nearer.
 */
/** `docker`: the daemon's container, where the daemon has a container of its own. */
export const engineObjectKinds = ['instance', 'docker', 'network', 'image'] as const;
export const orphanKinds = [...engineObjectKinds, 'disk'] as const;
export type OrphanKind = (typeof orphanKinds)[number];

/** `policy` until an operator decides. */
export const orphanHandlings = ['policy', 'stop', 'delete'] as const;
export type OrphanHandling = (typeof orphanHandlings)[number];

export const orphanActions = ['adopt', 'stop', 'delete'] as const;
export type OrphanAction = (typeof orphanActions)[number];
export const orphanPolicies = [
  'report',
  'stop', // stops at once; deletes after `retentionMs`
  'delete',
] as const;

export interface OrphanPolicy {
  action: (typeof orphanPolicies)[number];
  retentionMs: number;
}

export const defaultOrphanPolicy: OrphanPolicy = { action: 'stop', retentionMs: 24 * 3_600_000 };

export interface Orphan {
  /** `<regionId>/<kind>/<engineName>`; `engineName` of a disk is `<pool>/<kind>/<id>`. */
  id: string;
  regionId: string;
  kind: OrphanKind;
  engineName: string;
  /** Instance (also for Docker and saved images), account of a network, or disk. */
  subjectId: string;
  ownerId: string;
  imageRef: string;
  generation: number;
  running: boolean;
  createdAtMs: number;
  firstSeenAtMs: number;
  lastSeenAtMs: number;
  watchedMs: number;
  handling: OrphanHandling;
  note: string;
}

export const orphanIdOf = (regionId: string, { kind, engineName }: Pick<Orphan, 'kind' | 'engineName'>): string =>
  `${regionId}/${kind}/${engineName}`;

/** Maximum per interval: a longer one was not watched. */
const MAX_WATCH_MS = 60_000;

/** Returns at least 1 ms more, so that a second observation differs from the first. */
export const addWatchedTime = (
  { watchedMs, lastSeenAtMs }: Pick<Orphan, 'watchedMs' | 'lastSeenAtMs'>,
  nowMs: number,
): number => watchedMs + Math.min(MAX_WATCH_MS, Math.max(1, nowMs - lastSeenAtMs));

/** Only confirmed orphans are listed and handled. */
export const isConfirmed = ({ watchedMs }: Pick<Orphan, 'watchedMs'>): boolean => watchedMs > 0;

type DecisionInput = Pick<Orphan, 'kind' | 'running' | 'handling' | 'watchedMs'>;

export function orphanStep(orphan: DecisionInput, policy: OrphanPolicy): 'leave' | 'halt' | 'discard' {
  if (!isConfirmed(orphan)) return 'leave';
  if (msUntilDeleted(orphan, policy) === 0) return 'discard';
  const stops = orphan.handling === 'stop' || policy.action === 'stop';
  if (!stops || !orphan.running) return 'leave';
  // The data is on a disk, so nothing is lost.
  if (orphan.kind === 'docker') return 'discard';
  return orphan.kind === 'instance' ? 'halt' : 'leave';
}

export function msUntilDeleted({ kind, handling, watchedMs }: DecisionInput, policy: OrphanPolicy): number | null {
  if (handling === 'delete') return 0;
  if (kind === 'disk' || handling === 'stop' || policy.action === 'report') return null;
  return policy.action === 'delete' ? 0 : Math.max(0, policy.retentionMs - watchedMs);
}
