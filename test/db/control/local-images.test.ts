/** Images that Berth builds, in a region whose engine has them or not. */
import { expect, test } from 'vitest';
import { eventually, IMAGE_REF, makeWorld } from '../../fixtures/control.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';

onBothEngines("an image of Berth's own", (open) => {
  test('is offered and launched only where a region has it or builds it', async () => {
    const world = await makeWorld(await open());
    await eventually(() => world.drivers.health.answers);
    const has = (localImages: ReadonlySet<string> | undefined): void => {
      const probe = world.drivers.health.probe ?? expect.fail('no probe');
      world.drivers.health = { ...world.drivers.health, probe: { ...probe, localImages } };
    };
    has(new Set());
    const { images, instances } = world.running.control;
    const listed = async () => {
      const { images: page } = await images.list(world.caller, { currentPage: 1, pageSize: 10 });
      return page.flatMap(({ regions }) => regions.map(({ region }) => region));
    };
    expect(await listed()).toEqual([]);
    await expectRefused(
      instances.launch(world.caller, world.launchInput(), null),
      'unsupported',
      /berth\.local\/test:1 is on no node of region \S+, and no registry has it; choose another image, or ask the operator/,
    );
    has(new Set([IMAGE_REF]));
    expect(await listed()).not.toEqual([]);
    await instances.launch(world.caller, world.launchInput(), null);
    has(undefined);
    expect(await listed()).not.toEqual([]);
  });
});
