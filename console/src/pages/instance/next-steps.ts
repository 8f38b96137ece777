/** What a person can do about the reason of a problem. Pure. */
import type { Tab } from './search.ts';

export type NextStep =
  | { kind: 'act'; act: 'start' | 'restart' | 'terminate' }
  /** A start that replaces the lost root disk, after a question. */
  | { kind: 'newRootDisk' }
  | { kind: 'tab'; tab: Tab }
  /** The launch page with the choices of this instance. */
  | { kind: 'launchOther' }
  /** The same, by the hour. */
  | { kind: 'launchByHour' }
  | { kind: 'place'; to: '/billing' | '/images' };

const start: NextStep = { kind: 'act', act: 'start' };
const restart: NextStep = { kind: 'act', act: 'restart' };
const tab = (name: Tab): NextStep => ({ kind: 'tab', tab: name });
const other: NextStep = { kind: 'launchOther' };
const billing: NextStep = { kind: 'place', to: '/billing' };

/** The first is the most likely one. Reasons that pass by themselves have none. */
const steps: Readonly<Record<string, readonly NextStep[]>> = {
  NoCapacity: [other],
  OffPeakWait: [{ kind: 'launchByHour' }],
  CapacityTimeout: [start, other],
  BackOff: [other],
  ImageDenied: [{ kind: 'place', to: '/images' }, start],
  ImageFailed: [start, other],
  ImageUnfit: [other],
  VolumeLost: [tab('storage'), start],
  BadMount: [tab('storage'), start],
  DisksFailed: [start],
  DisksLost: [start],
  RootDiskLost: [{ kind: 'newRootDisk' }, { kind: 'act', act: 'terminate' }],
  DiskFull: [start],
  PortsUsedUp: [start],
  EngineRejected: [other],
  ContainerExited: [tab('logs')],
  CrashLoop: [tab('logs'), start],
  OutOfMemory: [tab('settings'), restart],
  StartTimeout: [start, tab('logs')],
  GpuLost: [restart],
  Unhealthy: [restart, tab('logs')],
  ArchiveFailed: [start],
  RootDiskOverSize: [start],
  HostNearlyFull: [start],
  OperatorStop: [start],
  AccountDisabled: [],
  PaidTimeEnded: [start, billing],
  NoMoney: [billing, start],
  BudgetReached: [billing, start],
  OffPeakEnded: [start, { kind: 'launchByHour' }],
  SpotReclaimed: [start],
  ScheduledStop: [start, tab('settings')],
  MaxRunTime: [start, tab('settings')],
  IdleStop: [start, tab('settings')],
};

/** Steps for a reason, without acts that the status forbids. */
export const stepsOf = (reason: string, actions: readonly string[]): readonly NextStep[] =>
  (steps[reason] ?? []).filter((step) => step.kind !== 'act' || actions.includes(step.act));
