/** Scripts of an instance: how they ended, by its message, and the start command's log. */
import { expect, test } from 'vitest';
import { parseConsole } from '../../../src/control/compute/instances/start-reports.ts';
import type { PublicInstance } from '../../../src/domain/compute/public-instance.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { hasStatus, makeWorld, type World } from '../../fixtures/control.ts';

async function launched(world: World, startCommand: string, initScript = ''): Promise<string> {
  const plain = world.launchInput();
  const input = { ...plain, startCommand, instanceConfiguration: { ...plain.instanceConfiguration, initScript } };
  const { instanceId } = await world.running.control.instances.launch(world.caller, input, null);
  return instanceId;
}

async function says(world: World, id: string, message: string): Promise<string> {
  const isSo = ({ instanceRuntimeInfo }: PublicInstance) => instanceRuntimeInfo.message === message;
  return (await world.until(id, (one) => hasStatus('Running')(one) && isSo(one))).instanceRuntimeInfo.message;
}

onBothEngines('the start command', (open) => {
  test('runs at every start, and its exit code is in the message', async () => {
    const world = await makeWorld(await open());
    const { instances, logs } = world.running.control;
    const sim = (code: number): string =>
      `# berth-sim: exit ${code} after 1ms\n# berth-sim: init says after 0ms out ${code}\n`;
    const id = await launched(world, sim(3), '# berth-sim: exit 0 after 1ms');
    await says(world, id, 'the init script exited with code 0; the start command exited with code 3');
    const page = await logs.read(world.caller, { instanceId: id, source: 'start', from: { tail: 10 }, limit: 10 });
    expect(page.lines.map(({ text }) => text)).toEqual(['out 3']);
    const changed = await instances.update(world.caller, { instanceId: id, startCommand: sim(4) }, null);
    expect(changed.appliesAt).toBe('nextStart');
    expect((await instances.get(world.caller, { instanceId: id })).startCommand).toBe(sim(4));
    await instances.restart(world.caller, { instanceId: id }, null);
    await says(world, id, 'the init script exited with code 0; the start command exited with code 4');
    await instances.update(world.caller, { instanceId: id, startCommand: '' }, null);
    await instances.restart(world.caller, { instanceId: id }, null);
    await says(world, id, 'the init script exited with code 0');
  });

  test('shows that it runs, for as long as it does', async () => {
    const world = await makeWorld(await open());
    const id = await launched(world, '# berth-sim: exit 0 after 1h');
    expect(await says(world, id, 'the start command is running')).toMatch(/running$/);
  });

  test('names the failed command, with values of secrets hidden', async () => {
    const world = await makeWorld(await open());
    const say = '# berth-sim: say after 5ms berth: start exit 1 line 2 ended with code 1: curl: bad token tell-me';
    const input = world.launchInput({ startCommand: '# berth-sim: exit 1 after 1h', secrets: { TOKEN: 'tell-me' } });
    input.instanceConfiguration.initScript = `# berth-sim: exit 0 after 1ms\n${say}\n`;
    const { instanceId } = await world.running.control.instances.launch(world.caller, input, null);
    const text = 'the start command exited with code 1; line 2 ended with code 1: curl: bad token [TOKEN]';
    expect(await says(world, instanceId, `the init script exited with code 0; ${text}`)).not.toContain('tell-me');
  });
});

test('reads how the scripts of the last start ended, without colors and control characters', () => {
  const report = parseConsole([
    'berth: services ssh',
    'berth: init exit 0 line 2 ended with code 1: pip install x: \u001b[31mERROR\u001b[0m: none\u0007',
    'berth: start exit 5',
    'berth: services ssh notebook',
    'berth: init exit 0',
    'berth: init exit 0123456 nonsense',
    'berth: start started',
  ]);
  expect(report).toEqual({
    services: ['ssh', 'notebook'],
    init: { exit: 0, failure: '' },
    start: 'running',
    notebook: null,
  });
  const [failed] = [parseConsole(['berth: init exit 7 line 2: \u001b[31mERROR\u001b[0m: none\u0007'])];
  expect(failed.init).toEqual({ exit: 7, failure: 'line 2: ERROR: none ' });
  expect(parseConsole(['berth: services ssh', 'berth: start exit 5', 'berth: services ssh']).start).toBeNull();
});
