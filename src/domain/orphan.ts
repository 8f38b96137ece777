/**
 * # Strays
 *
 * An object on an engine that bears our label and that no intent explains: what a lost database, a backup from yesterday or a save
 * that was overtaken left behind. It is seen in two sweeps before it counts, and then listed to the operator, who adopts it, stops
 * it or has it deleted; until then the policy decides. The time that the policy waits is the time in which Berth watched: a clock
 * that jumps, or a server that was down for a week, brings no deletion nearer. A disk in a pool that no row explains is a stray too;
 * that is somebody's data, and no policy deletes it.
 */
export const orphanKinds = ['instance', 'docker', 'network', 'image', 'disk'] as const;
export type OrphanKind = (typeof orphanKinds)[number];

/** What was said to be done with one: `policy` until an operator says otherwise. */
export const orphanHandlings = ['policy', 'stop', 'delete'] as const;
export type OrphanHandling = (typeof orphanHandlings)[number];

export const orphanPolicies = [
  'report', // nothing is touched
  'stop', // what runs is stopped at once, all of it is deleted after `keptMs`
  'delete', // at once
] as const;

export interface OrphanPolicy {
  action: (typeof orphanPolicies)[number];
  /** How long a stray is watched before `stop` deletes it. */
  retentionMs: number;
}

export const defaultOrphanPolicy: OrphanPolicy = { action: 'stop', retentionMs: 24 * 3_600_000 };

export interface Orphan {
  /** `<regionId>/<kind>/<engineName>`; of a disk that name is `<pool>/<kind of disk>/<id>`. */
  id: string;
  regionId: string;
  kind: OrphanKind;
  engineName: string;
  /**
   * The id on its label: of an instance, also for its Docker, of an account for a network, of the instance that an image was saved from;
   * or a disk's id.
   */
  subjectId: string;
  ownerId: string;
  /** What an instance was made from; '' for all else. */
  imageRef: string;
  generation: number;
  running: boolean;
  createdAtMs: number;
  firstSeenAtMs: number;
  lastSeenAtMs: number;
  /** For how long sweeps have seen it one after the other; 0 after the first. */
  watchedMs: number;
  handling: OrphanHandling;
  /** What became of the last try to do something with it. */
  note: string;
}

export const orphanIdOf = (regionId: string, { kind, engineName }: Pick<Orphan, 'kind' | 'engineName'>): string =>
  `${regionId}/${kind}/${engineName}`;

/** What counts between two sightings at most: more than that, nobody was watching. */
const LONGEST_WATCH_MS = 60_000;

/** The time watched, after one more sighting: more than 0, so that the second one is told from the first. */
export const addWatchedTime = (
  { watchedMs, lastSeenAtMs }: Pick<Orphan, 'watchedMs' | 'lastSeenAtMs'>,
  nowMs: number,
): number => watchedMs + Math.min(LONGEST_WATCH_MS, Math.max(1, nowMs - lastSeenAtMs));

/** Seen twice: only such are listed and handled. */
export const isConfirmed = ({ watchedMs }: Pick<Orphan, 'watchedMs'>): boolean => watchedMs > 0;

type Decided = Pick<Orphan, 'kind' | 'running' | 'handling' | 'watchedMs'>;

/** The next deed with a stray. */
export function orphanStep(orphan: Decided, policy: OrphanPolicy): 'leave' | 'halt' | 'discard' {
  if (!isConfirmed(orphan)) return 'leave';
  if (msUntilDeleted(orphan, policy) === 0) return 'discard';
  const stops = orphan.handling === 'stop' || policy.action === 'stop';
  if (!stops || !orphan.running) return 'leave';
  // What a Docker keeps is on a disk: nothing is lost with what runs it.
  if (orphan.kind === 'docker') return 'discard';
  return orphan.kind === 'instance' ? 'halt' : 'leave';
}

/** How much longer it is watched before it is deleted; null when it is kept. */
export function msUntilDeleted({ kind, handling, watchedMs }: Decided, policy: OrphanPolicy): number | null {
  if (handling === 'delete') return 0;
  if (kind === 'disk' || handling === 'stop' || policy.action === 'report') return null;
  return policy.action === 'delete' ? 0 : Math.max(0, policy.retentionMs - watchedMs);
}
