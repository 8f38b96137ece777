import { once } from '../../../../async/limits.ts';
import type { Store } from '../../../../store/store.ts';
import { requireOwned, requireRunning } from '../require-instance.ts';
import type { TerminalSize } from '../../../../engines/contract.ts';
import type { AttachedTerminal, TerminalInfo, TerminalHost } from './terminal-host.ts';
import { quotaLimit, type Forwarding } from '../../../access/ports.ts';
import { makeConcurrencyLimit, type Caller } from '../../../kernel/ports.ts';

export interface Terminals {
  attach(
    caller: Caller,
    request: { instanceId: string; name: string; size: TerminalSize },
    signal: AbortSignal,
  ): Promise<AttachedTerminal>;
  list(caller: Caller, instanceId: string): Promise<TerminalInfo[]>;
  close(caller: Caller, body: { instanceId: string; terminal: string }): Promise<void>;
}

const VIEWERS = { perAccount: 64, total: 2_000, share: 2, retryAfterS: 2 };

interface Deps {
  store: Pick<Store, 'read'>;
  terminals: TerminalHost;
  beginTraffic: Forwarding['beginTraffic'];
}

export function makeTerminals({ store, terminals, beginTraffic }: Deps): Terminals {
  const limit = makeConcurrencyLimit({
    ...VIEWERS,
    full: {
      mine: (count) => `${count} of your viewers are attached to terminals, the limit; wait until one disconnects`,
      all: (count) => `${count} viewers are attached to terminals on this server, the limit; try again later`,
    },
  });
  return {
    async attach(caller, { instanceId: asked, name, size }, signal) {
      const { id: instanceId } = await requireRunning(store, caller, asked);
      const maxOfOwner = await quotaLimit(store.read, caller.accountId, 'terminals');
      const releaseLimit = limit.acquire(caller.accountId);
      const attached = await terminals
        .attach({ instanceId, name, size, ownerId: caller.accountId, maxOfOwner }, signal)
        .catch((error: unknown) => {
          releaseLimit();
          throw error;
        });
      const endTraffic = beginTraffic(instanceId, 'use');
      const leave = once(() => {
        endTraffic();
        releaseLimit();
        attached.leave();
      });
      async function* messages() {
        try {
          yield* attached.messages;
        } finally {
          leave();
        }
      }
      return { ...attached, messages: messages(), leave };
    },
    list: async (caller, asked) => terminals.list((await requireOwned(store, caller, asked)).id),
    async close(caller, { instanceId, terminal: name }) {
      await terminals.close({ instanceId: (await requireOwned(store, caller, instanceId)).id, name });
    },
  };
}
