/** Opens the notebook of a launch in this tab as soon as it answers, if it has one. */
import { useLocalStorage } from '@mantine/hooks';
import { useEffect, useRef } from 'react';
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';
import { api } from '../../app/api.ts';
import { useFailureNotice } from '../../parts/use-failure-notice.ts';
import { idOf, nextActOf } from '../instances/allowed-acts.ts';

/** Whether notebooks open by themselves; remembered in this browser. */
export const useOpensByItself = () =>
  useLocalStorage({ key: 'berth.opensByItself', defaultValue: true, getInitialValueInEffect: false });

export function useOpenWhenReady(instance: InstanceObject, isAsked: boolean, onOpened: () => void): void {
  const fail = useFailureNotice();
  const [opensByItself] = useOpensByItself();
  const hasOpened = useRef(false);
  const instanceId = idOf(instance);
  const isReady = nextActOf(instance) === 'open' && instance.instanceRuntimeInfo.phase === 'Ready';
  useEffect(() => {
    if (!isAsked || !opensByItself || !isReady || hasOpened.current) return;
    hasOpened.current = true;
    // Back leads to the page, which does not open the notebook again.
    onOpened();
    api.open({ instanceId }).then(({ url }) => window.location.assign(url), fail);
  }, [isAsked, opensByItself, isReady, instanceId, onOpened, fail]);
}
