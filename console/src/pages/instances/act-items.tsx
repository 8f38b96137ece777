/** Acts of an instance as items of a menu; those that it does not allow say why. */
import { Menu } from '@mantine/core';
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';
import { useTexts } from '../../texts/provider.tsx';
import { actNames, type ActName } from './allowed-acts.ts';

interface ActItemsProps {
  instance: InstanceObject;
  /** Shown as a button beside the menu. */
  except: string | null;
  isPossible: (name: ActName) => boolean;
  onAct: (name: ActName) => void;
}

export function ActItems({ instance, except, isPossible, onAct }: ActItemsProps) {
  const { instances, statuses } = useTexts();
  const whyNot = instances.notNow(statuses.instance[instance.instanceRuntimeInfo.status]);
  return actNames
    .filter((name) => name !== except)
    .map((name) => (
      <Menu.Item
        key={name}
        disabled={!isPossible(name)}
        title={isPossible(name) ? undefined : whyNot}
        color={name === 'terminate' ? 'red' : undefined}
        onClick={() => onAct(name)}
      >
        {instances.acts[name]}
      </Menu.Item>
    ));
}
