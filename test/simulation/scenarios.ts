import type { Caller } from '../../src/control/index.ts';
import type { Action } from '../../src/domain/compute/instance-states.ts';
import { sendRequest, type Request } from './client.ts';
import { drawHostEvent, loseRegion } from './host-events.ts';
import { drawRegionRequest } from './region-requests.ts';
import {
  instanceAction,
  createSshKey,
  createVolume,
  drawLaunch,
  drawRequest,
  launch,
  type LaunchChoice,
} from './requests.ts';
import { copyVolume, createSnapshot, deleteSnapshot, deleteVolume, expandVolume } from './storage-requests.ts';
import { impoverish } from './money-requests.ts';
import { jumpToEdge } from './money-watch.ts';
import { callers } from './template.ts';
import type { World } from './world.ts';

/** Schedules random requests and events. Returns the end in milliseconds of the run. */
export function drawScenario(world: World): number {
  const { schedule } = world;
  const spanMs = schedule.spread(20_000, 1_200_000);
  for (let count = schedule.between(0, 3); count > 0; count--)
    schedule.later((schedule.random() * spanMs) / 10, () => sendRequest(world, drawLaunch(world)));
  for (let count = schedule.between(8, 24); count > 0; count--) {
    schedule.later(schedule.random() * spanMs, () => {
      const burst = schedule.chance(0.2) ? schedule.between(2, 4) : 1;
      for (let nth = 0; nth < burst; nth++) {
        const request = drawRequest(world);
        if (!request) continue;
        sendRequest(world, request);
        if (request.key !== null && schedule.chance(0.2)) sendRequest(world, request);
      }
    });
  }
  for (let count = schedule.between(0, 6); count > 0; count--)
    schedule.later(schedule.random() * spanMs, () => drawHostEvent(world));
  if (world.regions.length > 1) {
    for (let count = schedule.between(0, 2); count > 0; count--)
      schedule.later(schedule.random() * spanMs, () => loseRegion(world));
    for (let count = schedule.between(0, 4); count > 0; count--)
      schedule.later(schedule.random() * spanMs, () => sendRequest(world, drawRegionRequest(world)));
  }
  if (world.money && schedule.chance(0.5)) impoverish(world);
  if (world.money) {
    for (let count = schedule.between(1, 4); count > 0; count--)
      schedule.later(schedule.spread(1_000, spanMs), () => sendRequest(world, drawLaunch(world)));
    for (let count = schedule.between(1, 6); count > 0; count--)
      schedule.later(schedule.random() * spanMs, () => jumpToEdge(world));
  }
  return spanMs;
}

type Scenario = (world: World, key: () => string) => readonly (readonly [afterMs: number, make: () => Request])[];

const nobody = 'notebook-00000000-0000-4000-8000-000000000000';
const nothing = '00000000-0000-4000-8000-000000000000';

const ann = (): Caller => {
  const [first] = callers;
  if (!first) throw new Error('there are callers');
  return first;
};

/** Requests of the fixed scenarios. Objects are addressed by order of creation. */
const scenarioRequests = (world: World, key: () => string) => {
  const { model } = world;
  const volume = (at: number): string => [...model.volumes.keys()][at] ?? nothing;
  const snapshot = (at: number): string => [...model.snapshots.keys()][at] ?? nothing;
  return {
    volume,
    start: (choice: LaunchChoice) => (): Request => launch(world, ann(), key(), choice),
    on: (action: Action, at: number) => (): Request =>
      instanceAction(world, ann(), action, [...model.instances.keys()][at] ?? nobody, key()),
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
 * Together the scenarios use every request. Several short ones, because crash points take quadratic
 * time.
 */
const scenarios: readonly Scenario[] = [
  (world, key) => {
    const { start, on, createSshKey: addKey } = scenarioRequests(world, key);
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
    const {
      start,
      on,
      createVolume: addVolume,
      deleteVolume: dropVolume,
      startWithVolume,
    } = scenarioRequests(world, key);
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
    const { start, on } = scenarioRequests(world, key);
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
    const reported = scenarioRequests(world, key);
    return [
      [50, reported.createVolume],
      [100, reported.createSnapshot],
      [300, reported.expandVolume(6)],
      [2, reported.copyVolume('copy')],
      [800, reported.expandVolume(7)],
      [1, reported.restoreSnapshot('restored')],
      [1, reported.deleteSnapshot],
      [1, reported.deleteVolume],
    ];
  },
];

/** Time for the last request. */
const AFTER_MS = 300;

/** Schedules one of them. Returns its end. */
export function fixedScenario(world: World, nth: number, more: { twice?: boolean } = {}): number {
  let keys = 0;
  const tell = scenarios[nth];
  if (!tell) throw new Error(`there is no story ${nth}, only 0 to ${scenarios.length - 1}`);
  let atMs = 1_000;
  for (const [afterMs, make] of tell(world, () => `f${keys++}`)) {
    atMs += afterMs;
    world.schedule.later(atMs, () => {
      const request = make();
      sendRequest(world, request);
      if (more.twice) sendRequest(world, request);
    });
  }
  return atMs + AFTER_MS;
}
