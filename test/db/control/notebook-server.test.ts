/** The notebook server by the instance object, events, log and gateway. */
import { expect, test } from 'vitest';
import type { PublicInstance } from '../../../src/domain/compute/public-instance.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { eventsOf } from './paid-time-fixture.ts';

const launched = async (world: World, ...says: string[]): Promise<string> => {
  const input = world.launchInput({ secrets: { TOKEN: 'tell-me' } });
  const lines = ['exit 0 after 1ms', ...says.map((line) => `say after ${line}`)];
  input.instanceConfiguration.initScript = lines.map((line) => `# berth-sim: ${line}\n`).join('');
  return (await world.running.control.instances.launch(world.caller, input, null)).instanceId;
};

const inState =
  (state: string) =>
  (one: PublicInstance): boolean =>
    hasStatus('Running')(one) && one.notebook?.state === state;

onBothEngines('the notebook server', (open) => {
  test('is ready a moment after the instance, without a word, and unknown while it is stopped', async () => {
    const world = await makeWorld(await open());
    const id = await launched(world);
    const ended = ({ instanceRuntimeInfo: { message } }: PublicInstance): boolean => /exited/.test(message);
    const ready = await world.until(id, (one) => inState('ready')(one) && ended(one));
    expect(ready.notebook).toEqual({ state: 'ready', text: '', endedAtUnixMs: 0 });
    expect(ready.instanceRuntimeInfo.message).toBe('the init script exited with code 0');
    const { instances, logs } = world.running.control;
    const page = await logs.read(world.caller, { instanceId: id, source: 'notebook', from: { tail: 5 }, limit: 5 });
    expect(page.lines.map(({ text }) => text)).toEqual(['the simulated notebook server is ready']);
    await instances.stop(world.caller, { instanceId: id }, null);
    expect((await world.until(id, hasStatus('Stopped'))).notebook).toBe(null);
  });

  test('tells the gateway its image during a launch, and not during a start', async () => {
    const world = await makeWorld(await open());
    const { instances, forwarding } = world.running.control;
    const startingImage = async (id: string) => (await forwarding.route(id))?.startingImage;
    const id = await launched(world);
    expect(await startingImage(id)).toMatch(/./);
    const byCommand = await instances.launch(world.caller, { ...world.launchInput(), runImageCommand: true }, null);
    expect(await startingImage(byCommand.instanceId)).toBeUndefined();
    expect((await forwarding.route(byCommand.instanceId))?.notebook?.state).toBe('command');
    await world.until(id, inState('ready'));
    await expect.poll(() => startingImage(id)).toBeUndefined();
    await instances.stop(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    await instances.start(world.caller, { instanceId: id }, null);
    expect(await forwarding.route(id)).toMatchObject({ status: 'Starting', startingImage: undefined });
  });

  test('does not tell it while a launch waits for capacity', async () => {
    const world = await makeWorld(await open());
    world.engine.misbehave(({ verb }) => (verb === 'ensure' ? { mode: 'failBefore', kind: 'no_capacity' } : undefined));
    const id = await launched(world);
    await world.until(id, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason !== '');
    expect((await world.running.control.forwarding.route(id))?.startingImage).toBeUndefined();
  });

  test('fails with its last line, for the gateway too, secrets hidden', async () => {
    const world = await makeWorld(await open());
    const id = await launched(world, '0ms berth: notebook failed 1 bad token tell-me');
    const failed = await world.until(id, inState('failed'));
    expect(failed.notebook?.text).toBe('bad token [TOKEN]');
    expect(failed.instanceRuntimeInfo.message).toMatch(
      /the notebook server does not start: it ended with code 1; last line of its log: bad token \[TOKEN\]$/,
    );
    expect(failed.instanceRuntimeInfo).toMatchObject({ healthy: true, diagnosisReason: '' });
    expect((await world.running.control.forwarding.route(id))?.notebook).toEqual({
      state: 'failed',
      text: 'bad token [TOKEN]',
    });
    expect(await eventsOf(world, id, 'instance.notebookFailed')).toEqual([{ exit: 1, text: 'bad token [TOKEN]' }]);
  });

  test('is none in an image without Jupyter, and has no log', async () => {
    const world = await makeWorld(await open());
    const id = await launched(world, '1ms berth: services ssh');
    await world.until(id, inState('none'));
    const { logs } = world.running.control;
    const request = { instanceId: id, source: 'notebook', from: { tail: 5 }, limit: 5 } as const;
    await expect(logs.read(world.caller, request)).rejects.toThrow(/has no Jupyter/);
  });

  test('reports an end once, although it runs again and its port answered at each check', async () => {
    const world = await makeWorld(await open(), { hurry: 100 });
    const ended = '10m berth: notebook ended 137 1764480000 2 Killed';
    const id = await launched(world, ended, '10m berth: notebook starting', '10m berth: notebook ready');
    await world.until(id, inState('ready'));
    const after = await world.until(id, (one) => (one.notebook?.endedAtUnixMs ?? 0) > 0);
    expect(after.notebook).toEqual({ state: 'ready', text: 'Killed', endedAtUnixMs: 1_764_480_000_000 });
    expect(after.instanceRuntimeInfo.message).toMatch(/and 2 kernels with it.* \(it was killed\).*; it runs again$/);
    const event = { exit: 137, text: 'Killed', endedAtUnixMs: 1_764_480_000_000, kernels: 2 };
    expect(await eventsOf(world, id, 'instance.notebookEnded')).toEqual([event]);
  });

  test('is found failed by its port, and ready again', async () => {
    const world = await makeWorld(await open(), { hurry: 100 });
    const id = await launched(world, '3m berth: notebook failed 1 no such module', '6m berth: notebook ready');
    await world.until(id, inState('ready'));
    world.engine.misbehave(({ verb }) => (verb === 'dial' ? { mode: 'failBefore', kind: 'busy' } : undefined));
    const failed = await world.until(id, inState('failed'));
    expect(failed.notebook?.text).toBe('no such module');
    world.engine.misbehave(undefined);
    await world.until(id, inState('ready'));
  });
});
