/** Random events on the simulated host. */
import type { InstanceId } from '../../src/domain/kernel/ids.ts';
import { createOrphan } from './orphan-requests.ts';
import { losses, type SimulatedRegion } from './simulated-region.ts';
import type { World } from './world.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

type HostEvent = (world: World) => void;

interface Container {
  id: InstanceId;
  host: SimulatedRegion['engine']['host'];
}

function anyContainer(world: World): Container | null {
  const { schedule, checker } = world;
  const { host } = world.anyRegion().engine;
  const found = [...checker.instances.values()].map(({ instance }) => instance.id).filter((id) => host.holds(id));
  return found.length === 0 ? null : { id: schedule.oneOf(found), host };
}

/** Weight, description and effect of each event. */
const hostEvents: readonly (readonly [number, string, HostEvent])[] = [
  [
    3,
    'the engine is away',
    (world) => {
      const { schedule } = world;
      world.anyRegion().engine.host.goAway(schedule.spread(SECOND, schedule.chance(0.1) ? DAY : 20 * MINUTE));
    },
  ],
  [3, 'the engine comes up again, and nothing runs', (world) => void world.anyRegion().engine.host.reboot()],
  [
    2,
    'a container is lost',
    (world) => {
      const found = anyContainer(world);
      if (found) void found.host.forget(found.id);
    },
  ],
  [
    3,
    'a container ends by itself',
    (world) => {
      const found = anyContainer(world);
      if (found) void found.host.crash(found.id, world.schedule.between(0, 255));
    },
  ],
  [1, 'the engine is reinstalled, and all is lost', (world) => void world.anyRegion().engine.host.forgetAll()],
  [
    1,
    'the engine will be restored to what it is now',
    (world) => {
      const { schedule } = world;
      const { host } = world.anyRegion().engine;
      const saved = host.saveState();
      schedule.later(schedule.spread(MINUTE, 30 * MINUTE), () => {
        if (world.hasHealed) return;
        schedule.say('the engine is restored');
        void host.restoreState(saved);
      });
    },
  ],
  [2, 'an orphan of ours appears', createOrphan],
  [1, 'the image is removed', (world) => world.anyRegion().engine.host.dropImage('berth.local/test:1')],
  [
    2,
    'another program takes a node port',
    (world) => {
      const { schedule } = world;
      const { engine } = world.anyRegion();
      const nodePort = schedule.between(30_000, 30_015);
      engine.host.takePort(nodePort);
      schedule.later(schedule.spread(SECOND, 10 * MINUTE), () => engine.host.freePort(nodePort));
    },
  ],
  [
    2,
    'the date jumps',
    ({ wallClock, schedule }) => {
      const ms = schedule.oneOf([1, -1]) * schedule.spread(SECOND, schedule.chance(0.3) ? DAY : HOUR);
      schedule.say(`by ${ms} ms`);
      wallClock.jump(ms);
    },
  ],
  [
    1,
    'the date stands still',
    ({ wallClock, schedule }) => {
      wallClock.freeze();
      schedule.later(schedule.spread(SECOND, 10 * MINUTE), () => wallClock.goOn());
    },
  ],
  [
    1,
    'the server is held up',
    ({ server, schedule }) => {
      if (server) server.pausedUntilMs = schedule.nowMs + schedule.spread(SECOND, 10 * MINUTE);
    },
  ],
  [2, 'the server is killed', (world) => world.kill()],
  [
    1,
    'the backing of a volume is gone for a while',
    (world) => {
      const { schedule, checker } = world;
      const { storage } = world.anyRegion();
      const volumes = [...storage.there.keys()].filter((disk) => disk.startsWith('volume/'));
      if (volumes.length === 0) return;
      const disk = schedule.oneOf(volumes);
      storage.lose(disk);
      // The server never retries a volume that was deleted or that failed permanently.
      schedule.later(schedule.spread(SECOND, 20 * MINUTE), () => {
        const status = checker.volumes.get(disk.slice('volume/'.length))?.status;
        if (status !== undefined && status !== 'Failed') storage.find(disk);
      });
    },
  ],
];
const totalWeight = hostEvents.reduce((sum, [weight]) => sum + weight, 0);

export function drawHostEvent(world: World): void {
  let remainingWeight = world.schedule.random() * totalWeight;
  for (const [weight, text, fn] of hostEvents) {
    remainingWeight -= weight;
    if (remainingWeight >= 0) continue;
    world.schedule.say(text);
    return fn(world);
  }
}

/** Now, and back sooner or later, sometimes without its containers. */
export function loseRegion(world: World): void {
  const { schedule } = world;
  const region = world.anyRegion();
  region.lose(schedule.oneOf(losses));
  schedule.later(schedule.spread(SECOND, 20 * MINUTE), () => {
    if (!world.hasHealed) comeBack(world, region);
  });
}

export function comeBack({ schedule }: World, region: SimulatedRegion): void {
  const { host } = region.engine;
  const drawn = schedule.random();
  if (drawn < 0.3) void host.reboot();
  else if (drawn < 0.5) void host.forgetAll();
  region.find();
}
