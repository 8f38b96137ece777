import { expect, test } from 'vitest';
import { onEngine } from '../store/harness.ts';
import { hasStatus, makeWorld } from './harness.ts';
onEngine('postgres', 'debug', (open) => {
  test('loop', async () => {
    const say = (level: string) => (facts: Record<string, unknown>, text: string) => level !== 'debug' && console.log(new Date().toISOString(), level, text, facts['err'] instanceof Error ? facts['err'].stack : '', facts['id'] ?? '');
    const log = { debug: say('debug'), info: say('info'), warn: say('warn'), error: say('error') };
    const world = await makeWorld(await open(), { log });
    const { instances } = world.running.control;
    for (let i = 0; i < 15; i++) {
      const t = Date.now();
      const { instanceId } = await world.running.control.instances.launch(world.caller, world.wish(), null);
      for (let round = 0; round < 4; round++) {
        await new Promise((resolve) => setTimeout(resolve, round * 5));
        await world.again();
      }
      await world.until(instanceId, hasStatus('Running'));
      const t1 = Date.now();
      await world.running.control.instances.stop(world.caller, { instanceId }, null);
      await world.until(instanceId, hasStatus('Stopped'));
      const t2 = Date.now();
      await world.running.control.instances.terminate(world.caller, { instanceId }, null);
      console.log(t1 - t, t2 - t1, Date.now() - t2);
    }
    expect(instances).toBeDefined();
  }, 100_000);
});
