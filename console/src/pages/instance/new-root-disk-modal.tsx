import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';
import { api } from '../../app/api.ts';
import { ConfirmModal } from '../../parts/confirm-modal.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf, nameOf } from '../instances/allowed-acts.ts';

/** Starts an instance whose root disk is lost. */
export function NewRootDiskModal({ instance, onClose }: { instance: InstanceObject; onClose: () => void }) {
  const { newRootDisk } = useTexts().instance;
  const instanceId = idOf(instance);
  return (
    <ConfirmModal
      title={newRootDisk.title(nameOf(instance))}
      loses={[newRootDisk.loses]}
      keeps={newRootDisk.keeps}
      verb={newRootDisk.verb}
      act={() => api.start({ instanceId, newRootDisk: true }, { waitForCapacity: true })}
      onClose={onClose}
    />
  );
}
