import type { InstanceId } from '../../../domain/ids.ts';
import { Refusal } from '../../../domain/refusal.ts';
import type { Engine } from '../../../engines/contract.ts';
import { refusalOfFault } from '../instance.ts';
import type { Log } from '../../base/log.ts';
import type { Time } from '../../base/time.ts';
import { hangUpOrphans } from './orphan-shells.ts';
import { shellRequest } from './shell.ts';
import { makeTerminal, type Terminal } from './terminal.ts';
import type { TerminalHost, AttachRequest } from './terminal-host.ts';

export const MAX_PER_INSTANCE = 16;
export const MAX_PER_ACCOUNT = 64;
const MOST_OF_ALL = 2_000;
export const MAX_VIEWERS = 8;
/** Without a viewer. */
export const DETACHED_TTL_MS = 24 * 3_600_000;
const OPEN_MS = 30_000;
const MOST_LOOKED_INTO = 10_000;
/** Time for all shells to exit when the process stops. */
const STOP_MS = 5_000;

export interface TerminalDeps {
  engine: Pick<Engine, 'openExec' | 'exec'>;
  /** Unique per process; marks its shells. */
  holder: string;
  time: Time;
  log: Log;
}

export interface RunningTerminalHost extends TerminalHost {
  stop(): Promise<void>;
}

interface Held {
  instanceId: InstanceId;
  name: string;
  ownerId: string;
  createdAtMs: number;
  closesAtMs: number | null;
  callOff: () => void;
  opening: Promise<Terminal>;
  terminal: Terminal | null;
}

export function makeTerminalHost({ engine, holder, time, log }: TerminalDeps): RunningTerminalHost {
  const held = new Map<string, Held>();
  const lookedInto = new Set<string>();
  const ending = new AbortController();
  const keyOf = ({ instanceId, name }: { instanceId: string; name: string }): string => `${instanceId} ${name}`;

  function roomFor({ instanceId, ownerId }: AttachRequest): void {
    const all = [...held.values()];
    const refuse = (count: number, whose: string): never => {
      const words = `${whose} ${count} terminals open, and that is the most; close one (POST /api/instance/terminal/close)`;
      throw new Refusal('too_many_requests', words);
    };
    const ofInstance = all.filter((one) => one.instanceId === instanceId).length;
    if (ofInstance >= MAX_PER_INSTANCE) refuse(ofInstance, 'this instance has');
    const ofAccount = all.filter((one) => one.ownerId === ownerId).length;
    if (ofAccount >= MAX_PER_ACCOUNT) refuse(ofAccount, 'your instances have');
    if (all.length >= MOST_OF_ALL) refuse(all.length, 'this server has');
  }

  function lookForOrphans(instanceId: InstanceId, signal: AbortSignal): void {
    if (lookedInto.size > MOST_LOOKED_INTO) lookedInto.clear();
    if (lookedInto.has(instanceId)) return;
    lookedInto.add(instanceId);
    hangUpOrphans(engine.exec, { instanceId, holder, signal }).catch((error: unknown) => {
      log.debug({ err: error, instanceId }, 'shells that nobody holds could not be looked for');
    });
  }

  function onViewers(one: Held, viewers: number): void {
    one.callOff();
    if (held.get(keyOf(one)) !== one) return;
    one.closesAtMs = viewers > 0 ? null : time.now() + DETACHED_TTL_MS;
    one.callOff = viewers > 0 ? () => {} : time.after(DETACHED_TTL_MS, () => void closeNow(one));
  }

  async function closeNow(one: Held): Promise<void> {
    await one.terminal?.close().catch((error: unknown) => {
      log.warn({ err: error, instanceId: one.instanceId }, 'a terminal could not be closed');
    });
  }

  async function make(wish: AttachRequest): Promise<Held> {
    if (ending.signal.aborted) throw new Refusal('unavailable', 'the server is being stopped', { retryAfterS: 2 });
    roomFor(wish);
    const { instanceId, name, ownerId, size } = wish;
    const key = keyOf(wish);
    const signal = AbortSignal.any([ending.signal, time.deadline(OPEN_MS)]);
    lookForOrphans(instanceId, signal);
    const opening = engine.openExec(instanceId, shellRequest(name, holder, size), signal).then((shell) => {
      const terminal = makeTerminal({ shell, size, time, log, onViewers: (viewers) => onViewers(one, viewers) });
      one.terminal = terminal;
      onViewers(one, 0);
      void terminal.ended.then(() => forget(one));
      return terminal;
    });
    const createdAtMs = time.now();
    const one: Held = {
      instanceId,
      name,
      ownerId,
      createdAtMs,
      closesAtMs: null,
      callOff: () => {},
      opening,
      terminal: null,
    };
    opening.catch(() => forget(one));
    held.set(key, one);
    return one;
  }

  function forget(one: Held): void {
    one.callOff();
    if (held.get(keyOf(one)) === one) held.delete(keyOf(one));
  }

  async function attach(wish: AttachRequest, signal: AbortSignal) {
    const before = held.get(keyOf(wish));
    const one = before ?? (await make(wish));
    const terminal = await one.opening.catch((error: unknown) => {
      throw refusalOfFault(error);
    });
    signal.throwIfAborted();
    if (terminal.viewers >= MAX_VIEWERS) {
      const words = `terminal ${wish.name} has ${MAX_VIEWERS} viewers, and that is the most; leave with one of them`;
      throw new Refusal('too_many_requests', words);
    }
    return terminal.attach(wish.size, before === undefined);
  }

  return {
    attach,
    async list(instanceId) {
      return [...held.values()]
        .filter((one) => one.instanceId === instanceId)
        .flatMap(({ name, createdAtMs, closesAtMs, terminal }) =>
          terminal === null ? [] : [{ name, createdAtMs, closesAtMs, viewers: terminal.viewers, ...terminal.size }],
        )
        .toSorted((a, b) => (a.name < b.name ? -1 : 1));
    },
    async close(place) {
      const one = held.get(keyOf(place));
      if (one === undefined) throw new Refusal('not_found', `the instance has no terminal ${place.name} open`);
      try {
        const terminal = await one.opening;
        await terminal.close();
        await terminal.ended;
      } catch (error) {
        throw refusalOfFault(error);
      }
    },
    async stop() {
      ending.abort();
      const closing = Promise.all(
        [...held.values()].map(async (one) => (await one.opening.catch(() => null))?.close().catch(() => {})),
      );
      await Promise.race([closing, time.sleep(STOP_MS, new AbortController().signal)]);
    },
  };
}
