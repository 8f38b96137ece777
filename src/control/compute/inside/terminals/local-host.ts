import type { InstanceId } from '../../../../domain/kernel/ids.ts';
import { overQuota } from '../../../../domain/access/quota.ts';
import { Refusal } from '../../../../domain/kernel/refusal.ts';
import type { Engine } from '../../../../engines/contract.ts';
import { refusalOfFault } from '../require-instance.ts';
import { hangUpOrphans, shellRequest } from './terminal-shell.ts';
import { makeTerminal, type Terminal } from './terminal.ts';
import type { TerminalHost, AttachRequest } from './terminal-host.ts';
import type { Log, Time } from '../../../kernel/ports.ts';

export const MAX_PER_INSTANCE = 16;
const MAX_TOTAL = 2_000;
export const MAX_VIEWERS = 8;
export const DETACHED_TTL_MS = 24 * 3_600_000;
const OPEN_MS = 30_000;
const MAX_SWEPT_INSTANCES = 10_000;
/** Time for all shells to exit when the process stops. */
const STOP_MS = 5_000;

export interface TerminalHostDeps {
  engine: Pick<Engine, 'openExec' | 'exec'>;
  /** Unique per process; marks its shells. */
  holder: string;
  time: Time;
  log: Log;
}

export interface RunningTerminalHost extends TerminalHost {
  stop(): Promise<void>;
}

interface HostedTerminal extends AttachRequest {
  createdAtMs: number;
  closesAtMs: number | null;
  cancelExpiry: () => void;
  opening: Promise<Terminal>;
  terminal: Terminal | null;
}

export function makeTerminalHost({ engine, holder, time, log }: TerminalHostDeps): RunningTerminalHost {
  const terminals = new Map<string, HostedTerminal>();
  const sweptInstances = new Set<string>();
  const ending = new AbortController();
  const keyOf = ({ instanceId, name }: { instanceId: string; name: string }): string => `${instanceId} ${name}`;

  function hangUpOrphansOnce(instanceId: InstanceId, signal: AbortSignal): void {
    if (sweptInstances.size > MAX_SWEPT_INSTANCES) sweptInstances.clear();
    if (sweptInstances.has(instanceId)) return;
    sweptInstances.add(instanceId);
    hangUpOrphans(engine.exec, { instanceId, holder, signal }).catch((error: unknown) => {
      log.debug({ err: error, instanceId }, 'could not search for orphaned shells');
    });
  }

  function onViewers(hosted: HostedTerminal, viewers: number): void {
    hosted.cancelExpiry();
    if (terminals.get(keyOf(hosted)) !== hosted) return;
    hosted.closesAtMs = viewers > 0 ? null : time.now() + DETACHED_TTL_MS;
    hosted.cancelExpiry = viewers > 0 ? () => {} : time.after(DETACHED_TTL_MS, () => void closeNow(hosted));
  }

  async function closeNow(hosted: HostedTerminal): Promise<void> {
    await hosted.terminal?.close().catch((error: unknown) => {
      log.warn({ err: error, instanceId: hosted.instanceId }, 'a terminal could not be closed');
    });
  }

  async function create(request: AttachRequest): Promise<HostedTerminal> {
    if (ending.signal.aborted) throw new Refusal('unavailable', 'the server is stopping', { retryAfterS: 2 });
    checkLimits([...terminals.values()], request);
    const { instanceId, name, size } = request;
    const key = keyOf(request);
    const signal = AbortSignal.any([ending.signal, time.deadline(OPEN_MS)]);
    hangUpOrphansOnce(instanceId, signal);
    const opening = engine.openExec(instanceId, shellRequest(name, holder, size), signal).then((shell) => {
      const terminal = makeTerminal({ shell, size, time, log, onViewers: (viewers) => onViewers(hosted, viewers) });
      hosted.terminal = terminal;
      onViewers(hosted, 0);
      void terminal.ended.then(() => remove(hosted));
      return terminal;
    });
    const hosted: HostedTerminal = {
      ...request,
      createdAtMs: time.now(),
      closesAtMs: null,
      cancelExpiry: () => {},
      opening,
      terminal: null,
    };
    opening.catch(() => remove(hosted));
    terminals.set(key, hosted);
    return hosted;
  }

  function remove(hosted: HostedTerminal): void {
    hosted.cancelExpiry();
    if (terminals.get(keyOf(hosted)) === hosted) terminals.delete(keyOf(hosted));
  }

  async function attach(request: AttachRequest, signal: AbortSignal) {
    const existing = terminals.get(keyOf(request));
    const hosted = existing ?? (await create(request));
    const terminal = await hosted.opening.catch((error: unknown) => {
      throw refusalOfFault(error);
    });
    signal.throwIfAborted();
    if (terminal.viewers >= MAX_VIEWERS) {
      const words = `terminal ${request.name} has ${MAX_VIEWERS} viewers, the limit; disconnect one of them`;
      throw new Refusal('too_many_requests', words);
    }
    return terminal.attach(request.size, existing === undefined);
  }

  return {
    attach,
    async list(instanceId) {
      return [...terminals.values()]
        .filter((hosted) => hosted.instanceId === instanceId)
        .flatMap(({ name, createdAtMs, closesAtMs, terminal }) => {
          if (terminal === null) return [];
          const times = { createdAtUnixMs: createdAtMs, closesAtUnixMs: closesAtMs };
          return [{ terminal: name, viewers: terminal.viewers, ...terminal.size, ...times }];
        })
        .toSorted((a, b) => (a.terminal < b.terminal ? -1 : 1));
    },
    async close(terminalId) {
      const hosted = terminals.get(keyOf(terminalId));
      if (hosted === undefined) throw new Refusal('not_found', `the instance has no open terminal ${terminalId.name}`);
      try {
        const terminal = await hosted.opening;
        await terminal.close();
        await terminal.ended;
      } catch (error) {
        throw refusalOfFault(error);
      }
    },
    async stop() {
      ending.abort();
      const closing = Promise.all(
        [...terminals.values()].map(async (hosted) =>
          (await hosted.opening.catch(() => null))?.close().catch(() => {}),
        ),
      );
      await Promise.race([closing, time.sleep(STOP_MS, new AbortController().signal)]);
    },
  };
}

function checkLimits(all: readonly HostedTerminal[], { instanceId, ownerId, maxOfOwner }: AttachRequest): void {
  const refuse = (count: number, whose: string): never => {
    const words = `${whose} ${count} open terminals, the limit; close one (POST /api/instance/terminal/close)`;
    throw new Refusal('too_many_requests', words);
  };
  const ofInstance = all.filter((hosted) => hosted.instanceId === instanceId).length;
  if (ofInstance >= MAX_PER_INSTANCE) refuse(ofInstance, 'this instance has');
  const ofAccount = all.filter((hosted) => hosted.ownerId === ownerId).length;
  if (ofAccount >= maxOfOwner) throw overQuota('terminals', { limit: maxOfOwner, used: ofAccount, asked: 1 });
  if (all.length >= MAX_TOTAL) refuse(all.length, 'this server has');
}
