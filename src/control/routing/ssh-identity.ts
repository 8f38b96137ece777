/** What the gateway's process asks to serve ssh for an instance: as whom it answers, and whom it lets in. */
import { keysOfInstance } from '../../store/tables/keys.ts';
import type { Store } from '../../store/store.ts';
import type { SshHostKeys } from './ssh-host-key.ts';
import type { Forwarding } from './gateway-types.ts';

export const makeSshIdentity =
  ({ store, sshHostKey }: { store: Pick<Store, 'read'>; sshHostKey: SshHostKeys }): Forwarding['ssh'] =>
  async (instanceId) => {
    const lines = await keysOfInstance(store.read, instanceId);
    if (lines === null) return null;
    return { hostKey: sshHostKey(instanceId), keys: lines.map((line) => line.split(' ')[1] ?? '') };
  };
