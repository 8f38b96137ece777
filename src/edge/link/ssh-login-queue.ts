/** Logins at ssh fronts of a gateway process, for the API's audit log. An outage delays them. */
import type { Forwarding, Log, SshLogin } from '../../control/index.ts';

const MAX_LOGINS = 10_000;
/** Strangers must not take the room of logins. */
const MAX_REFUSALS = 1_000;

interface SshLoginQueueDeps {
  send: (login: SshLogin) => Promise<void>;
  isConnected: () => boolean;
  log: Pick<Log, 'warn'>;
}

export interface SshLoginQueue {
  add: Forwarding['recordSshLogin'];
  /** Call when the API is back. */
  sendAll(): Promise<void>;
}

export function makeSshLoginQueue({ send, isConnected, log }: SshLoginQueueDeps): SshLoginQueue {
  const queue: SshLogin[] = [];
  let isSending = false;

  async function sendAll(): Promise<void> {
    if (isSending) return;
    isSending = true;
    try {
      for (let next = queue[0]; next !== undefined && isConnected(); next = queue[0]) {
        await send(next);
        queue.shift();
      }
    } catch (error) {
      log.warn({ err: error, logins: queue.length }, 'ssh logins wait for the audit log of the API');
    } finally {
      isSending = false;
    }
  }

  return {
    async add(login) {
      if (queue.length >= (login.account === null ? MAX_REFUSALS : MAX_LOGINS))
        return log.warn({ login }, 'an ssh login is missing in the audit log: too many wait for the API');
      queue.push(login);
      await sendAll();
    },
    sendAll,
  };
}
