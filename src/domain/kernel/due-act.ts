/** Acts that are due at a time, each of one subject. */

export const actKinds = [
  'stop',
  'reclaim',
  'resume',
  'window',
  'saveRootDisk',
  'paidTime',
  'drain',
  'prices',
  'disable',
  'deleteAccount',
  'money',
  'retention',
] as const;
export type ActKind = (typeof actKinds)[number];

export interface DueAct {
  kind: ActKind;
  subjectId: string;
  ownerId: string;
  dueAtMs: number;
}
