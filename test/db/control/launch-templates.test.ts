/** Launches that accounts keep under names. */
import { expect, test } from 'vitest';
import { MAX_TEMPLATE_CHARACTERS, MAX_TEMPLATES } from '../../../src/control/compute/instances/launch-templates.ts';
import { makeWorld, type World } from '../../fixtures/control.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { eventKinds, expectRefused, keyed } from './access-fixture.ts';

const listed = async (world: World, caller = world.caller) =>
  (await world.running.control.templates.list(caller)).map(({ name, launchText }) => [name, JSON.parse(launchText)]);

onBothEngines('launch templates', (open) => {
  test('are set, replaced by name, listed by name, and deleted; each change is an event', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { templates } = world.running.control;
    const bob = await world.account('bob');
    const launch = world.launchInput({ name: 'train', environment: { A: 'ü' } });
    await templates.set(bob, { name: 'second', launch }, null);
    await templates.set(bob, { name: 'first', launch }, null);
    const other = { ...launch, nodePorts: [8_000] };
    await templates.set(bob, { name: 'second', launch: other }, null);
    expect(await listed(world, bob)).toEqual([
      ['first', JSON.parse(JSON.stringify(launch))],
      ['second', { ...JSON.parse(JSON.stringify(launch)), nodePorts: [8_000] }],
    ]);
    expect(await listed(world)).toEqual([]);
    expect(await templates.delete(bob, { name: 'first' }, null)).toEqual({ name: 'first' });
    expect((await listed(world, bob)).map(([name]) => name)).toEqual(['second']);
    await expectRefused(templates.delete(bob, { name: 'first' }, null), 'not_found', /"first" not found/);
    await expectRefused(templates.delete(world.caller, { name: 'second' }, null), 'not_found');
    expect((await eventKinds(world.store, bob.accountId)).filter((kind) => kind.startsWith('template.'))).toEqual([
      'template.set',
      'template.set',
      'template.set',
      'template.deleted',
    ]);
  });

  test('refuse secrets, and hold no text that the database shows', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { templates } = world.running.control;
    const launch = world.launchInput({ startCommand: 'export KEY=hidden' });
    const withSecrets = templates.set(world.caller, { name: 'a', launch: { ...launch, secrets: { KEY: 'x' } } }, null);
    await expectRefused(withSecrets, 'field_value', /environment\/set/);
    await templates.set(world.caller, { name: 'a', launch: { ...launch, secrets: {} } }, null);
    const rows = await world.store.read.selectFrom('template').selectAll().execute();
    expect(JSON.stringify(rows)).not.toContain('hidden');
    expect(rows[0]?.sealed).toMatch(/^v1\./);
    // Under another name the text does not open: a row cannot be moved to another account or name.
    await world.store.write((tx) => tx.updateTable('template').set({ name: 'b' }).execute());
    expect(await listed(world)).toEqual([]);
  });

  test('are limited in number and size, and a set with one key acts once', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { templates } = world.running.control;
    const set = (name: string, initScript = '', key?: string) => {
      const launch = world.launchInput();
      const body = {
        name,
        launch: { ...launch, instanceConfiguration: { ...launch.instanceConfiguration, initScript } },
      };
      return templates.set(world.caller, body, key === undefined ? null : keyed(key, 'setTemplate'));
    };
    const long = 'x'.repeat(MAX_TEMPLATE_CHARACTERS / 2);
    await set('long', long);
    await expectRefused(set('other', long), 'over_quota', /may hold 4000000/);
    // Its own former text does not count.
    await set('long', long);
    await set('long', 'short');
    const [once, twice] = [await set('keyed', '', 'k'), await set('keyed', '', 'k')];
    expect(twice).toEqual(once);
    for (let at = 2; at < MAX_TEMPLATES; at++) await set(`template ${at}`);
    await expectRefused(set('one more'), 'over_quota', /has 50 launch templates/);
    await set('keyed', 'replaced');
    expect(await listed(world)).toHaveLength(MAX_TEMPLATES);
  });
});
