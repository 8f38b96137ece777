/**
 * Engine from the view of one server run: over a connection that delays, loses, doubles and
 * falsifies calls. A call sent before a kill may arrive afterwards.
 */
import { EngineFault } from '../../src/domain/regions/engine-fault.ts';
import { instanceIdOf } from '../../src/domain/kernel/ids.ts';
import type { Engine, ImageProgress, Observation, OwnedObject } from '../../src/engines/contract.ts';
import { aborted, simulatedFault, type Verb } from '../../src/engines/simulated/injected-faults.ts';
import type { ServerRun } from './server-run.ts';
import type { SimulatedRegion } from './simulated-region.ts';

interface Ask<T> {
  verb: Verb;
  about: string;
  signal: AbortSignal;
  fn: (signal: AbortSignal) => Promise<T>;
  /** Changes the answer to another instance's. */
  another?: (answer: T) => T;
  /** Adds foreign objects to the answer. */
  foreign?: (answer: T) => T;
}

const foreignId = instanceIdOf('ffffffff-ffff-4fff-8fff-ffffffffffff');
const strange: OwnedObject = {
  kind: 'instance',
  id: foreignId,
  ownerId: 'nobody',
  generation: 1,
  running: true,
  engineName: `berth-${foreignId}`,
  createdAtMs: 0,
  imageRef: 'nothing',
};
const foreignObjects: OwnedObject[] = [
  strange,
  { ...strange, id: 'what is this', ownerId: '', generation: -1, running: false, engineName: '', imageRef: null },
  { ...strange, kind: 'network', id: 'nobody', engineName: 'berth-net', imageRef: null },
];

/** Never aborted: the call is on the network. */
const onItsWay = new AbortController().signal;

export function faultyEngine(life: ServerRun, region: SimulatedRegion): Engine {
  const { world } = life;
  const { schedule } = world;
  const { engine, preconditions } = region;
  /** Aborted when other drivers replace these. */
  const stopped = new AbortController();
  const unreachable = (): Error => simulatedFault('unreachable', `the engine of ${region.region.name} is away`);

  /** Resolves where the region is not lost. */
  const reach = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      if (region.lost === null) return resolve();
      if (region.lost === 'away') return reject(unreachable());
      signal.addEventListener('abort', () => reject(aborted(signal)), { once: true });
    });

  const ask = <T>({ verb, about, signal, fn, another, foreign }: Ask<T>): Promise<T> =>
    new Promise((resolve, reject) => {
      const what = `engine ${verb} ${about}`;
      if (!life.step(what)) return;
      if (signal.aborted) return reject(aborted(signal));
      preconditions.mayAskEngine(verb, about);
      const mishap = world.nextEngineFault(verb, about);
      const { mode, ms = 0, kind = 'unreachable' } = mishap ?? {};
      if (mishap) schedule.say(`… ${mode} ${ms} ${kind}`);
      const twisted = (answer: T): T =>
        (mode === 'another' ? another?.(answer) : mode === 'foreign' ? foreign?.(answer) : undefined) ?? answer;
      const line = new AbortController();
      let answered = false;
      const end = (): void => {
        answered = true;
        signal.removeEventListener('abort', giveUp);
        stopped.signal.removeEventListener('abort', replaced);
        life.ended.signal.removeEventListener('abort', breakOff);
      };
      const deliver = (how: () => void): void => {
        if (answered || !life.alive) return;
        end();
        if (life.step(`${what} answers`)) how();
      };
      const giveUp = (): void => {
        deliver(() => reject(aborted(signal)));
        line.abort();
      };
      const breakOff = (): void => {
        end();
        if (schedule.chance(0.5)) line.abort();
      };
      const replaced = (): void => {
        deliver(() => reject(unreachable()));
        line.abort();
      };
      const arrives = (how: () => void, afterMs = schedule.between(0, 4)): void =>
        void life.later(afterMs, () => {
          if (region.lost === null) deliver(how);
          else if (region.lost === 'away') deliver(() => reject(unreachable()));
        });
      const answer = (how: () => void): void => {
        switch (mode) {
          case 'late':
            return arrives(how, ms);
          case 'lost':
            return;
          case 'failAfter':
            return arrives(() => reject(simulatedFault(kind, `${verb} failed after it took effect`)));
          case 'garbage':
            return arrives(() => reject(new SyntaxError('Unexpected end of JSON input')));
          default:
            return arrives(how);
        }
      };
      const call = (by: AbortSignal, then: (how: () => void) => void): void => {
        if (by.aborted) return;
        if (mode === 'halfway' || mode === 'lying') region.armed.set(`${verb} ${about}`, mode);
        fn(by).then(
          (value) => then(() => resolve(twisted(value))),
          (error: unknown) => then(() => reject(error)),
        );
      };
      signal.addEventListener('abort', giveUp, { once: true });
      life.ended.signal.addEventListener('abort', breakOff, { once: true });
      if (stopped.signal.aborted || region.lost === 'away') return arrives(() => reject(unreachable()));
      stopped.signal.addEventListener('abort', replaced, { once: true });
      if (region.lost === 'silent') return;
      const soonMs = schedule.between(0, 3);
      if (mode === 'dropped') return;
      if (mode === 'failBefore')
        return arrives(() => reject(simulatedFault(kind, `${verb} failed before it took effect`)));
      if (mode === 'slow') return void schedule.later(ms, () => call(onItsWay, answer));
      schedule.later(soonMs, () => call(mode === 'lost' ? onItsWay : line.signal, answer));
      if (mode === 'twice') schedule.later(soonMs + ms, () => call(onItsWay, () => {}));
    });

  const reported =
    (onProgress: (progress: ImageProgress) => void) =>
    (progress: ImageProgress): void =>
      void life.later(0, () => onProgress(progress));
  const unknown = (reason: string): Observation => ({ kind: 'unknown', reason });
  /** The host dates the start by the wall clock, not by simulated time. */
  const dated = (seen: Observation): Observation =>
    seen.kind === 'present' && seen.startedAtMs > 0
      ? { ...seen, startedAtMs: world.wallClock.at(seen.startedAtMs) }
      : seen;

  return {
    probe: (signal) => region.looked('probe', ask({ verb: 'probe', about: '', signal, fn: (by) => engine.probe(by) })),
    listOwned: (signal) =>
      region.looked(
        'sweep',
        ask({
          verb: 'listOwned',
          about: '',
          signal,
          fn: async (by) =>
            (await engine.listOwned(by)).map((one) => ({ ...one, createdAtMs: world.wallClock.at(one.createdAtMs) })),
          another: (listed) => listed.map((one) => ({ ...one, id: foreignId })),
          foreign: (listed) => [...listed, ...foreignObjects],
        }),
      ),
    // Out of the simulation: no fault of it is a promise of control's.
    setEgress: (policies, signal) => reach(signal).then(() => engine.setEgress(policies, signal)),
    async observe(ids, signal) {
      const about = ids.join(',');
      try {
        const seen = await ask({
          verb: 'observe',
          about,
          signal,
          fn: (by) => engine.observe(ids, by),
          another: (answers) => new Map([...answers.values()].map((one) => [foreignId, one])),
        });
        return new Map([...seen].map(([id, one]) => [id, dated(one)]));
      } catch (error) {
        if (error instanceof EngineFault) return new Map(ids.map((id) => [id, unknown(error.message)]));
        throw error;
      }
    },
    ensureImage: (ref, onProgress, signal, credentials, more) =>
      ask({
        verb: 'ensureImage',
        about: ref,
        signal,
        fn: (by) => engine.ensureImage(ref, reported(onProgress), by, credentials, more),
      }),
    checkImage: (ref, signal, credentials) =>
      ask({ verb: 'checkImage', about: ref, signal, fn: (by) => engine.checkImage(ref, by, credentials) }),
    describeImage: (ref, signal) =>
      ask({ verb: 'describeImage', about: ref, signal, fn: (by) => engine.describeImage(ref, by) }),
    async pushImage(ref, onProgress, signal, credentials) {
      const fn = (by: AbortSignal): Promise<void> => engine.pushImage(ref, reported(onProgress), by, credentials);
      await ask({ verb: 'pushImage', about: ref, signal, fn });
      preconditions.markPushed(ref);
    },
    removeImage(ref, signal) {
      preconditions.mayRemoveImage(ref);
      return ask({ verb: 'removeImage', about: ref, signal, fn: (by) => engine.removeImage(ref, by) });
    },
    discard(owned, signal) {
      preconditions.mayDiscard(owned);
      return ask({ verb: 'discard', about: owned.engineName, signal, fn: (by) => engine.discard(owned, by) });
    },
    async ensure(spec, signal) {
      preconditions.mayEnsure(spec);
      return dated(await ask({ verb: 'ensure', about: spec.id, signal, fn: (by) => engine.ensure(spec, by) }));
    },
    halt: (id, graceMs, signal) => ask({ verb: 'halt', about: id, signal, fn: (by) => engine.halt(id, graceMs, by) }),
    destroy(id, signal) {
      preconditions.mayDestroy(id);
      return ask({ verb: 'destroy', about: id, signal, fn: (by) => engine.destroy(id, by) });
    },
    async saveImage(id, ref, signal) {
      preconditions.maySave(id, ref);
      const fn = (by: AbortSignal): Promise<{ sizeBytes: number }> => engine.saveImage(id, ref, by);
      const saved = await ask({ verb: 'saveImage', about: id, signal, fn });
      preconditions.markSaved(id, ref);
      return saved;
    },
    watch(onHint, signal) {
      engine.watch(
        (id) => {
          const mishap = world.faults.hint();
          if (mishap === 'lost' || region.lost !== null) return;
          for (let times = mishap === 'doubled' ? 2 : 1; times > 0; times--) {
            life.later(schedule.between(0, 20), () => {
              if (life.step(`hint ${id}`)) onHint(id);
            });
          }
        },
        AbortSignal.any([signal, life.ended.signal, stopped.signal]),
      );
    },
    logs: (id, source, range, signal) =>
      ask({ verb: 'logs', about: id, signal, fn: (by) => engine.logs(id, source, range, by) }),
    followLogs: (id, source, range, signal) =>
      ask({ verb: 'followLogs', about: id, signal, fn: (by) => engine.followLogs(id, source, range, by) }),
    openExec: (id, request, signal) =>
      ask({ verb: 'openExec', about: id, signal, fn: (by) => engine.openExec(id, request, by) }),
    exec: (id, command, signal) => ask({ verb: 'exec', about: id, signal, fn: (by) => engine.exec(id, command, by) }),
    dial: (id, port, signal) => ask({ verb: 'dial', about: id, signal, fn: (by) => engine.dial(id, port, by) }),
    joinNetwork: (id, signal) =>
      ask({ verb: 'joinNetwork', about: id, signal, fn: (by) => engine.joinNetwork(id, by) }),
    listenUnix: (id, onConnection, signal) =>
      ask({ verb: 'listenUnix', about: id, signal, fn: (by) => engine.listenUnix(id, onConnection, by) }),
    rootDiskSpace: (signal) => reach(signal).then(() => engine.rootDiskSpace(signal)),
    usage: (ids, signal, more) =>
      ask({ verb: 'usage', about: ids.join(','), signal, fn: (by) => engine.usage(ids, by, more) }),
    stop: async () => stopped.abort(),
  };
}
