/** Acts on instances: what each row offers, and the calls behind. */
import { notifications } from '@mantine/notifications';
import { useMutation } from '@tanstack/react-query';
import type { InstanceObject } from '../../../../src/contract/instance.ts';
import { api } from '../../app/api.ts';
import { sentenceOf } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';

export const actNames = ['start', 'stop', 'restart', 'archive', 'terminate'] as const;
export type ActName = (typeof actNames)[number];

export const idOf = ({ instanceMetadata }: InstanceObject): string => instanceMetadata.instanceId;
export const nameOf = ({ instanceSpecInfo }: InstanceObject): string => instanceSpecInfo.name;
export const mayAct = ({ actions }: InstanceObject, act: ActName): boolean => actions.includes(act);

export type NextAct = ActName | 'open' | 'why' | 'pay' | 'watch';

/** The next sensible thing to do with an instance. */
export function nextActOf({ instanceRuntimeInfo: { status, diagnosisReason } }: InstanceObject): NextAct | null {
  if (diagnosisReason === 'NoMoney' || diagnosisReason === 'PaidTimeEnded') return 'pay';
  switch (status) {
    case 'Running':
      return 'open';
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

/** Asks for an act, and says that it was taken or why not. */
export function useAct() {
  const texts = useTexts();
  return useMutation({
    mutationFn: ({ act, instance }: { act: ActName; instance: InstanceObject }) =>
      // A start in a full region waits for its place, and its page says so.
      act === 'start'
        ? api.start({ instanceId: idOf(instance) }, { waitForCapacity: true })
        : api[act]({ instanceId: idOf(instance) }),
    onSuccess: (_, { act, instance }) =>
      notifications.show({ message: texts.instances.asked[act](nameOf(instance)), color: 'berth' }),
    onError: (error) =>
      notifications.show({ title: texts.common.failed, message: sentenceOf(error, texts), color: 'red' }),
  });
}

/** A link is good for a minute and once: it is made at the click. */
export async function openInstance(instanceId: string, port?: number): Promise<void> {
  // Opened by the click itself; a tab that is opened after an answer is blocked.
  const tab = window.open('', '_blank');
  try {
    const { url } = await api.open({ instanceId, ...(port === undefined ? {} : { port }) });
    if (tab === null) window.location.assign(url);
    else tab.location.replace(url);
  } catch (error) {
    tab?.close();
    throw error;
  }
}
