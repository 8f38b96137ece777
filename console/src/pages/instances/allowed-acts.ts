/** What an instance allows, and the next sensible thing to do with it. Pure. */
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';

export const actNames = ['start', 'stop', 'restart', 'archive', 'terminate'] as const;
export type ActName = (typeof actNames)[number];

export const idOf = ({ instanceMetadata }: InstanceObject): string => instanceMetadata.instanceId;
export const nameOf = ({ instanceSpecInfo }: InstanceObject): string => instanceSpecInfo.name;
export const mayAct = ({ actions }: InstanceObject, act: ActName): boolean => actions.includes(act);

export type NextAct = ActName | 'open' | 'why' | 'pay' | 'watch';

/** The next sensible thing to do with an instance. */
export function nextActOf({ instanceRuntimeInfo, notebook }: InstanceObject): NextAct | null {
  const { status, diagnosisReason } = instanceRuntimeInfo;
  if (diagnosisReason === 'NoMoney' || diagnosisReason === 'PaidTimeEnded') return 'pay';
  // Its page asks before the root disk is replaced.
  if (diagnosisReason === 'RootDiskLost') return 'why';
  switch (status) {
    case 'Running':
      return notebook?.state === 'none' ? null : 'open';
    case 'Stopped':
    case 'Archived':
      return 'start';
    case 'StartingFailed':
    case 'InitializationFailed':
      return 'why';
    case 'Starting':
    case 'Initializing':
    case 'PullingImage':
    case 'Restarting':
      return 'watch';
    case 'Released':
      return null;
  }
}
