import type { Caller } from '../../src/control/index.ts';
import type { Action } from '../../src/domain/instance-states.ts';
import { ask, type Request } from './client.ts';
import { befall } from './host-events.ts';
import { act, createSshKey, createVolume, drawLaunch, drawRequest, launch, type LaunchChoice } from './requests.ts';
import { copyVolume, createSnapshot, deleteSnapshot, deleteVolume, expandVolume } from './storage-requests.ts';
import { callers } from './template.ts';
import type { World } from './world.ts';

/** Plans it, and answers when the last of it is to happen, in milliseconds of the run. */
export function drawnStory(world: World): number {
  const { schedule } = world;
  const spanMs = schedule.spread(20_000, 1_200_000);
  for (let count = schedule.between(0, 3); count > 0; count--)
    schedule.later((schedule.random() * spanMs) / 10, () => ask(world, drawLaunch(world)));
  for (let count = schedule.between(8, 24); count > 0; count--) {
    schedule.later(schedule.random() * spanMs, () => {
      const burst = schedule.chance(0.2) ? schedule.between(2, 4) : 1;
      for (let nth = 0; nth < burst; nth++) {
        const request = drawRequest(world);
        if (!request) continue;
        ask(world, request);
        if (request.key !== null && schedule.chance(0.2)) ask(world, request);
      }
    });
  }
  for (let count = schedule.between(0, 6); count > 0; count--)
    schedule.later(schedule.random() * spanMs, () => befall(world));
  return spanMs;
}

type Tell = (world: World, key: () => string) => readonly (readonly [afterMs: number, make: () => Request])[];

const nobody = 'notebook-00000000-0000-4000-8000-000000000000';
const nothing = '00000000-0000-4000-8000-000000000000';

const ann = (): Caller => {
  const [first] = callers;
  if (!first) throw new Error('there are callers');
  return first;
};

/** What the fixed stories are told with: the instances and volumes of a world by the order in which they were made. */
const words = (world: World, key: () => string) => {
  const { model } = world;
  const volume = (at: number): string => [...model.volumes.keys()][at] ?? nothing;
  const snapshot = (at: number): string => [...model.snapshots.keys()][at] ?? nothing;
  return {
    volume,
    start: (choice: LaunchChoice) => (): Request => launch(world, ann(), key(), choice),
    on: (action: Action, at: number) => (): Request =>
      act(world, ann(), action, [...model.instances.keys()][at] ?? nobody, key()),
    createSshKey: (): Request => createSshKey(world, ann(), key()),
    createVolume: (): Request => createVolume(world, ann(), key(), 'data'),
    deleteVolume: (): Request => deleteVolume(world, ann(), volume(0), key()),
    expandVolume: (sizeGB: number) => (): Request => expandVolume(world, ann(), volume(0), key(), sizeGB),
    copyVolume: (name: string) => (): Request =>
      copyVolume(world, ann(), 'volumes', key(), { id: volume(0), name, sizeGB: 7 }),
    createSnapshot: (): Request => createSnapshot(world, ann(), volume(0), key(), 'before'),
    restoreSnapshot: (name: string) => (): Request =>
      copyVolume(world, ann(), 'snapshots', key(), { id: snapshot(0), name }),
    deleteSnapshot: (): Request => deleteSnapshot(world, ann(), snapshot(0), key()),
    startWithVolume: (): Request => launch(world, ann(), key(), { volumes: [volume(0)] }),
  };
};

/**
 * Together they ask everything, in the states that they find, one after the other. There are several, because what is tried at each of
 * their steps takes as long as the whole of one.
 */
const stories: readonly Tell[] = [
  (world, key) => {
    const { start, on, createSshKey: addKey } = words(world, key);
    return [
      [50, start({ type: 2, ports: [80, 8_888], initScript: '#!/bin/sh\n# berth-sim: exit 3 after 400ms\n' })],
      [600, on('stop', 0)],
      [300, addKey],
      [5, on('start', 0)],
      [20, on('stop', 0)],
      [300, on('start', 0)],
      [300, on('restart', 0)],
      [300, addKey],
    ];
  },
  (world, key) => {
    const { start, on, createVolume: addVolume, deleteVolume: dropVolume, startWithVolume } = words(world, key);
    return [
      [50, addVolume],
      [5, startWithVolume],
      [5, start({ image: 1 })],
      [400, on('restart', 0)],
      [5, on('terminate', 1)],
      [200, start({ initScript: '#!/bin/sh\n# berth-sim: crash once after 300ms exit 1\n' })],
      [900, on('terminate', 0)],
      [1, on('restart', 2)],
      [200, dropVolume],
      [100, on('terminate', 2)],
    ];
  },
  (world, key) => {
    const { start, on } = words(world, key);
    return [
      [50, start({ type: 3, ports: [80] })],
      [200, on('archive', 0)],
      [300, on('start', 0)],
      [5, start({ type: 1 })],
      [5, start({ type: 1, waitMs: 60_000 })],
      [5, start({ type: 1, waitMs: 60_000 })],
      [300, on('terminate', 1)],
      [300, on('archive', 2)],
      [200, on('terminate', 2)],
      [5, on('terminate', 3)],
      [100, on('archive', 0)],
    ];
  },
  (world, key) => {
    const told = words(world, key);
    return [
      [50, told.createVolume],
      [100, told.createSnapshot],
      [300, told.expandVolume(6)],
      [2, told.copyVolume('copy')],
      [800, told.expandVolume(7)],
      [1, told.restoreSnapshot('restored')],
      [1, told.deleteSnapshot],
      [1, told.deleteVolume],
    ];
  },
];

/** In which the last of it is done. */
const AFTER_MS = 300;

/** Plans one of them, and answers when the last of it is to happen. */
export function fixedStory(world: World, nth: number, more: { twice?: boolean } = {}): number {
  let keys = 0;
  const tell = stories[nth];
  if (!tell) throw new Error(`there is no story ${nth}, only 0 to ${stories.length - 1}`);
  let atMs = 1_000;
  for (const [afterMs, make] of tell(world, () => `f${keys++}`)) {
    atMs += afterMs;
    world.schedule.later(atMs, () => {
      const request = make();
      ask(world, request);
      if (more.twice) ask(world, request);
    });
  }
  return atMs + AFTER_MS;
}
