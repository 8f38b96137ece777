/** Faults of the simulated engine, one by one, and their reproduction by seed. */
import { describe, expect, it } from 'vitest';
import type { InstanceId } from '../../../src/domain/kernel/ids.ts';
import type { EngineSpec, Observation } from '../../../src/engines/contract.ts';
import { containerName } from '../../../src/engines/labels.ts';
import { makeRandom, makeRandomFaults } from '../../fixtures/seeded-random.ts';
import { makeVirtualClock, type VirtualClock } from '../../fixtures/virtual-clock.ts';
import {
  faultModes,
  verbs,
  type FaultMode,
  type Faults,
  type SimulatedFault,
  type Verb,
} from '../../../src/engines/simulated/injected-faults.ts';
import { makeSimulatedEngine, type SimulatedEngine } from '../../../src/engines/simulated/simulated.ts';
import { imageRef, noSignal, specOf, uuidOf } from './simulated-spec.ts';

/** Only the first call of a verb has the fault. */
const first =
  (verb: Verb, fault: SimulatedFault): Faults =>
  (call) =>
    call.verb === verb && call.nth === 1 ? fault : undefined;

function misbehaving(faults?: Faults): { engine: SimulatedEngine; clock: VirtualClock } {
  const clock = makeVirtualClock();
  const options = faults === undefined ? {} : { faults };
  const engine = makeSimulatedEngine({
    installation: uuidOf('installation'),
    clock,
    random: makeRandom('1'),
    ...options,
  });
  engine.host.addImage(imageRef);
  return { engine, clock };
}

const spec = specOf('one');
async function truth(engine: SimulatedEngine, id: InstanceId = spec.id): Promise<Observation | undefined> {
  engine.misbehave(undefined);
  engine.host.comeBack();
  return (await engine.observe([id], noSignal())).get(id);
}

/** Engine with a running instance, which then fails. */
async function running(faults: Faults): Promise<{ engine: SimulatedEngine; clock: VirtualClock }> {
  const { engine, clock } = misbehaving();
  await clock.run(engine.ensure(spec, noSignal()));
  await clock.advance(1_000);
  engine.misbehave(faults);
  return { engine, clock };
}

describe('ensure', () => {
  const ensureWith = async (fault: SimulatedFault) => {
    const { engine, clock } = misbehaving(first('ensure', fault));
    const beganMs = clock.now();
    const outcome = await clock.run(engine.ensure(spec, noSignal())).catch((thrown: unknown) => thrown);
    return { engine, clock, outcome, tookMs: clock.now() - beganMs };
  };

  it('slow: takes effect late', async () => {
    const { engine, clock } = misbehaving(first('ensure', { mode: 'slow', ms: 60_000 }));
    const call = engine.ensure(spec, noSignal());
    await clock.advance(59_999);
    expect(await truth(engine)).toEqual({ kind: 'absent' });
    expect(await clock.run(call)).toMatchObject({ running: true });
  });

  it('late: takes effect at once, answers late', async () => {
    const { engine, clock } = misbehaving(first('ensure', { mode: 'late', ms: 60_000 }));
    let answered = false;
    const call = engine.ensure(spec, noSignal()).then(() => (answered = true));
    await clock.advance(1_000);
    expect(await truth(engine)).toMatchObject({ running: true });
    expect(answered).toBe(false);
    await clock.run(call);
    expect(clock.now()).toBeGreaterThanOrEqual(60_000);
  });

  it('lost: takes effect, and answers only the abort, with a fault', async () => {
    const { engine, clock } = misbehaving(first('ensure', { mode: 'lost' }));
    const abort = new AbortController();
    let settled = false;
    const call = engine.ensure(spec, abort.signal).finally(() => (settled = true));
    await clock.advance(86_400_000);
    expect(settled).toBe(false);
    abort.abort();
    await expect(call).rejects.toMatchObject({ name: 'EngineFault', kind: 'unreachable', retry: true });
    expect(await truth(engine)).toMatchObject({ running: true });
  });

  it('failBefore: a fault, no effect', async () => {
    const { engine, outcome } = await ensureWith({ mode: 'failBefore', kind: 'no_capacity' });
    expect(outcome).toMatchObject({ name: 'EngineFault', kind: 'no_capacity', retry: true });
    expect(await truth(engine)).toEqual({ kind: 'absent' });
  });

  it('failAfter: a fault, and the effect', async () => {
    const { engine, outcome } = await ensureWith({ mode: 'failAfter' });
    expect(outcome).toMatchObject({ name: 'EngineFault', kind: 'unreachable', retry: true });
    expect(await truth(engine)).toMatchObject({ running: true });
  });

  it('halfway: created and not started; the next call finishes it', async () => {
    const { engine, clock, outcome } = await ensureWith({ mode: 'halfway' });
    expect(outcome).toMatchObject({ name: 'EngineFault', retry: true });
    expect(await truth(engine)).toMatchObject({ kind: 'present', running: false, startedAtMs: 0 });
    expect(await clock.run(engine.ensure(spec, noSignal()))).toMatchObject({ running: true });
  });

  it('lying: reports it running, and nothing exists', async () => {
    const { engine, outcome } = await ensureWith({ mode: 'lying' });
    expect(outcome).toMatchObject({ kind: 'present', running: true });
    expect(await truth(engine)).toEqual({ kind: 'absent' });
  });

  it('forgetful: earlier state is lost, root disk included', async () => {
    const { engine, clock } = misbehaving();
    await clock.run(engine.ensure(spec, noSignal()));
    await engine.exec(spec.id, ['touch', '/root/kept'], noSignal());
    engine.misbehave(first('ensure', { mode: 'forgetful' }));
    await clock.run(engine.ensure(spec, noSignal()));
    expect(await truth(engine)).toMatchObject({ running: true });
    expect(await engine.exec(spec.id, ['ls', '/root/kept'], noSignal())).toMatchObject({ exitCode: 1 });
  });

  it('unreachable: for a while, to every verb, while instances keep running', async () => {
    const { engine, clock } = await running(first('probe', { mode: 'unreachable', ms: 10_000 }));
    await expect(engine.probe(noSignal())).rejects.toMatchObject({ kind: 'unreachable' });
    await clock.advance(9_999);
    await expect(engine.ensure(spec, noSignal())).rejects.toMatchObject({ kind: 'unreachable', retry: true });
    await expect(engine.listOwned(noSignal())).rejects.toMatchObject({ kind: 'unreachable' });
    expect((await engine.observe([spec.id], noSignal())).get(spec.id)).toMatchObject({ kind: 'unknown' });
    await clock.advance(1);
    expect((await engine.observe([spec.id], noSignal())).get(spec.id)).toMatchObject({
      running: true,
      startedAtMs: 10,
    });
  });
});

describe('other verbs', () => {
  it('observe: lies about one instance only; a fault of one is unknown, never a throw', async () => {
    const other = specOf('other');
    const { engine } = await running(({ verb, about }) =>
      verb === 'observe' && about === other.id ? { mode: 'lying' } : undefined,
    );
    const lied = await engine.observe([spec.id, other.id], noSignal());
    expect([lied.get(spec.id), lied.get(other.id)]).toMatchObject([
      { running: true },
      { kind: 'present', running: true },
    ]);
    expect(await truth(engine, other.id)).toEqual({ kind: 'absent' });
    engine.misbehave(({ about }) => (about === spec.id ? { mode: 'failAfter', kind: 'denied' } : undefined));
    const seen = await engine.observe([spec.id, other.id], noSignal());
    expect([seen.get(spec.id), seen.get(other.id)]).toMatchObject([{ kind: 'unknown' }, { kind: 'absent' }]);
  });

  it('observe: a lost answer is unknown at the caller’s deadline', async () => {
    const { engine } = await running(first('observe', { mode: 'lost' }));
    const abort = new AbortController();
    const call = engine.observe([spec.id], abort.signal);
    abort.abort();
    expect((await call).get(spec.id)).toMatchObject({ kind: 'unknown' });
  });

  it('halt and destroy: lying leaves it running, halfway stops and keeps it', async () => {
    const { engine } = await running(() => ({ mode: 'lying' }));
    await engine.halt(spec.id, 1_000, noSignal());
    await engine.destroy(spec.id, noSignal());
    expect(await engine.listOwned(noSignal())).toEqual([]);
    expect(await truth(engine)).toMatchObject({ running: true });
    engine.misbehave(first('destroy', { mode: 'halfway' }));
    await expect(engine.destroy(spec.id, noSignal())).rejects.toMatchObject({ kind: 'unreachable' });
    expect(await truth(engine)).toMatchObject({ kind: 'present', running: false });
  });

  it('watch: hints are dropped or delayed as configured', async () => {
    const { engine, clock } = await running(() => undefined);
    const hints: InstanceId[] = [];
    engine.watch((id) => hints.push(id), noSignal());
    engine.misbehave(({ verb }) => (verb === 'watch' ? { mode: 'lost' } : undefined));
    await engine.host.crash(spec.id);
    await clock.advance(60_000);
    expect(hints).toEqual([]);
    await clock.run(engine.ensure(spec, noSignal()));
    engine.misbehave(({ verb }) => (verb === 'watch' ? { mode: 'late', ms: 5_000 } : undefined));
    await engine.host.crash(spec.id);
    await clock.advance(4_999);
    expect(hints).toEqual([]);
    await clock.advance(1);
    expect(hints).toEqual([spec.id]);
  });

  it.each(verbs.filter((verb) => verb !== 'watch' && verb !== 'observe' && verb !== 'usage'))(
    '%s: fails before its effect in every mode that fails, with a fault of the closed set, and works the next time',
    async (verb) => {
      for (const mode of ['failBefore', 'unreachable'] as const) {
        const { engine, clock } = await running(first(verb, mode === 'unreachable' ? { mode, ms: 10 } : { mode }));
        const call = (): Promise<unknown> => clock.run(callOf(engine, verb));
        await expect(call()).rejects.toMatchObject({ name: 'EngineFault', kind: 'unreachable', retry: true });
        await clock.advance(10);
        await call();
      }
    },
  );
});

describe('the host', () => {
  it('rebooted: every container exists, none runs', async () => {
    const { engine } = await running(() => undefined);
    await engine.host.reboot();
    expect(await truth(engine)).toMatchObject({ kind: 'present', running: false, exitCode: 255 });
  });

  it('reinstalled: containers and images are gone', async () => {
    const { engine, clock } = await running(() => undefined);
    await engine.host.forgetAll();
    expect(await engine.listOwned(noSignal())).toEqual([]);
    await expect(clock.run(engine.ensure(spec, noSignal()))).rejects.toMatchObject({ kind: 'not_found' });
  });

  it('a node port of another program is busy and named, until it is free', async () => {
    const { engine, clock } = misbehaving();
    engine.host.takePort(30_001);
    const target = specOf('one', { nodePorts: [{ port: 22, nodePort: 30_001 }] });
    await expect(clock.run(engine.ensure(target, noSignal()))).rejects.toMatchObject({
      kind: 'busy',
      takenNodePort: 30_001,
    });
    engine.host.freePort(30_001);
    expect(await clock.run(engine.ensure(target, noSignal()))).toMatchObject({ nodePorts: target.nodePorts });
  });

  it('lost during a start: a fault, and nothing remains', async () => {
    const { engine, clock } = misbehaving();
    const call = engine.ensure(spec, noSignal());
    await clock.advance(7);
    await engine.host.forget(spec.id);
    await expect(clock.run(call)).rejects.toMatchObject({ kind: 'unreachable', retry: true });
    expect(await truth(engine)).toEqual({ kind: 'absent' });
  });
});

describe('seeded faults', () => {
  const everywhere = (share: number): Partial<Record<FaultMode, number>> =>
    Object.fromEntries(faultModes.map((mode) => [mode, share / faultModes.length]));

  /**
   * Thirty instances, each reconciled by a small loop through random faults; returns all
   * observations.
   */
  async function badDay(seed: string): Promise<string[]> {
    const rates = Object.fromEntries(verbs.map((verb) => [verb, everywhere(0.4)]));
    const { engine, clock } = misbehaving(makeRandomFaults({ seed, rates }));
    const story: string[] = [];
    const drive = async (word: string): Promise<void> => {
      const target = specOf(word);
      for (let round = 0; round < 6; round++) {
        const verb = (['ensure', 'exec', 'halt', 'ensure', 'dial', 'destroy'] as const)[round] ?? 'ensure';
        const abort = new AbortController();
        const over = new AbortController();
        clock.sleep(5_000, over.signal).then(
          () => abort.abort(),
          () => {},
        );
        const outcome = await callOf(engine, verb, target, abort.signal).then(
          () => 'done',
          (fault: unknown) => String(fault),
        );
        over.abort();
        await clock.sleep(2_000, noSignal());
        story.push(`${clock.now()} ${word} ${verb} ${outcome}`);
      }
    };
    await clock.run(Promise.all(Array.from({ length: 30 }, (_, index) => drive(`instance ${index}`))));
    engine.misbehave(undefined);
    engine.host.comeBack();
    story.push(JSON.stringify(await engine.listOwned(noSignal())));
    return story;
  }

  it('the same seed reproduces every fault, another seed does not', async () => {
    const day = await badDay('one');
    expect(day).toEqual(await badDay('one'));
    expect(day).not.toEqual(await badDay('two'));
    expect(day.join('\n')).toMatch(/failed before it took effect/);
    expect(day.join('\n')).toMatch(/does not answer/);
    expect(day.join('\n')).toMatch(/aborted/);
  });

  it('a call’s fault does not depend on earlier calls', () => {
    const faults = makeRandomFaults({ seed: 'x', rates: { ensure: everywhere(1) } });
    const calls = Array.from({ length: 50 }, (_, index) => ({
      verb: 'ensure' as const,
      about: `i-${index}`,
      nth: 1,
      nowMs: 0,
    }));
    const forward = calls.map((call) => faults(call));
    expect(
      calls
        .toReversed()
        .map((call) => faults(call))
        .toReversed(),
    ).toEqual(forward);
  });

  it('each mode occurs about at its rate', () => {
    const faults = makeRandomFaults({ seed: 'x', rates: { ensure: everywhere(0.9) } });
    const met = new Map<string, number>();
    const draws = 9_000;
    for (let nth = 1; nth <= draws; nth++) {
      const mode = faults({ verb: 'ensure', about: 'one', nth, nowMs: 0 })?.mode ?? 'none';
      met.set(mode, (met.get(mode) ?? 0) + 1);
    }
    for (const mode of [...faultModes, 'none']) expect((met.get(mode) ?? 0) / draws, mode).toBeCloseTo(0.1, 1);
    expect(faults({ verb: 'halt', about: 'one', nth: 1, nowMs: 0 })).toBeUndefined();
  });
});

function discardOf(engine: SimulatedEngine, { id, ownerId }: EngineSpec, signal: AbortSignal): Promise<void> {
  const about = { id, ownerId, generation: 1, running: true, createdAtMs: 0, imageRef: null };
  return engine.discard({ kind: 'instance', engineName: containerName(id), ...about }, signal);
}

function callOf(engine: SimulatedEngine, verb: Verb, target = spec, signal = noSignal()): Promise<unknown> {
  switch (verb) {
    case 'probe':
      return engine.probe(signal);
    case 'listOwned':
      return engine.listOwned(signal);
    case 'observe':
      return engine.observe([target.id], signal);
    case 'ensureImage':
      return engine.ensureImage(target.imageRef, () => {}, signal);
    case 'checkImage':
      return engine.checkImage('quay.io/a/b:1', signal);
    case 'describeImage':
      return engine.describeImage(target.imageRef, signal);
    case 'pushImage':
      return engine.pushImage(target.imageRef, () => {}, signal);
    case 'removeImage':
      return engine.removeImage('berth.local/saved:1', signal);
    case 'ensure':
      return engine.ensure(target, signal);
    case 'halt':
      return engine.halt(target.id, 1_000, signal);
    case 'destroy':
      return engine.destroy(target.id, signal);
    case 'saveImage':
      return engine.saveImage(target.id, 'berth.local/saved:1', signal);
    case 'discard':
      return discardOf(engine, target, signal);
    case 'watch':
      engine.watch(() => {}, signal);
      return Promise.resolve();
    case 'logs':
      return engine.logs(target.id, 'console', { tail: 1 }, signal);
    case 'followLogs':
      return engine.followLogs(target.id, 'console', { tail: 1 }, signal);
    case 'openExec':
      return engine.openExec(target.id, { command: ['true'], env: {}, terminal: null }, signal);
    case 'exec':
      return engine.exec(target.id, ['true'], signal);
    case 'dial':
      return engine.dial(target.id, 22, signal);
    case 'joinNetwork':
      return engine.joinNetwork(target.id, signal);
    case 'listenUnix':
      return engine.listenUnix(target.id, () => {}, signal);
    case 'usage':
      return engine.usage([target.id], signal);
    default:
      return verb satisfies never;
  }
}
