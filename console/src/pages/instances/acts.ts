/** Acts on instances: the calls, and what they say. */
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';
import { api } from '../../app/api.ts';
import { useFailureNotice } from '../../parts/use-failure-notice.ts';
import { useOneAct } from '../../parts/use-one-act.ts';
import { useTexts } from '../../texts/provider.tsx';
import { idOf, nameOf, type ActName } from './allowed-acts.ts';

/** Asks for an act, and says that it was taken or why not. */
export function useAct() {
  const { asked } = useTexts().instances;
  return useOneAct({
    act: ({ act, instance }: { act: ActName; instance: InstanceObject }) =>
      // A start in a full region waits for its place, and its page says so.
      act === 'start'
        ? api.start({ instanceId: idOf(instance) }, { waitForCapacity: true })
        : api[act]({ instanceId: idOf(instance) }),
    said: (_, { act, instance }) => asked[act](nameOf(instance)),
  });
}

/** Opens an instance, or one of its ports, in another tab; says why not. */
export function useOpen(): (instanceId: string, port?: number) => void {
  const fail = useFailureNotice();
  return (instanceId, port) => void open(instanceId, port).catch(fail);
}

/** A link is good for a minute and once: it is made at the click. */
async function open(instanceId: string, port: number | undefined): Promise<void> {
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
