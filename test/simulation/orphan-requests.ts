import type { Caller } from '../../src/control/index.ts';
import { EngineFault } from '../../src/domain/regions/engine-fault.ts';
import { instanceIdOf, userId } from '../../src/domain/kernel/ids.ts';
import { sendRequest, type Request } from './client.ts';
import { callers, images, typesOf } from './template.ts';
import type { World } from './world.ts';

/** Outside of the drawn range, to avoid conflicts. */
const FIRST_PORT = 29_000;

/** Two sweeps must have found the orphan. */
const HEARD_OF_MS = [30_000, 300_000] as const;

/** Creates an orphan, and an operator who handles it. */
export function createOrphan(world: World): void {
  const { schedule } = world;
  const { engine } = world.anyRegion();
  schedule.later(schedule.spread(...HEARD_OF_MS), () => {
    const request = handleOrphan(world, schedule.oneOf(callers));
    if (request) sendRequest(world, request);
  });
  const id = instanceIdOf(schedule.uuid());
  const made = engine.ensure(
    {
      id,
      ownerId: userId(schedule.oneOf(callers).accountId),
      generation: 1,
      hostname: id,
      imageRef: images[0]?.ref ?? '',
      cpuMilli: 1_000,
      memoryMiB: 2_048,
      gpus: 0,
      pidsLimit: 100,
      mounts: [],
      nodePorts: [{ port: 22, nodePort: FIRST_PORT + schedule.between(0, 99) }],
      nodePortAddress: '127.0.0.1',
      files: [],
    },
    new AbortController().signal,
  );
  made.catch((error: unknown) => {
    // The engine is down or lacks the image: there is no orphan.
    if (!(error instanceof EngineFault)) throw error;
  });
}

/** Adopts or deletes an orphan. Null: none is known. */
export function handleOrphan(world: World, caller: Caller): Request | null {
  const { checker, model, schedule } = world;
  const orphans = world.server
    ? checker.rows<{ id: string; regionId: string }>('select id, "regionId" from orphan where "watchedMs" > 0')
    : [];
  if (orphans.length === 0) return null;
  const { id: strayId, regionId } = schedule.oneOf(orphans);
  const action = schedule.oneOf(['adopt', 'adopt', 'delete'] as const);
  const type = schedule.oneOf(typesOf(world.regionOf(regionId).region));
  return {
    text: `${action} stray ${strayId}`,
    caller,
    key: null,
    send: (control) => control.orphans.handle(caller, { strayId, action, instanceTypeId: type.id }),
    sent() {},
    answered(answer) {
      if (action !== 'adopt') return;
      const id =
        typeof answer === 'object' && answer !== null && 'instanceId' in answer ? String(answer.instanceId) : '';
      const [row] = checker.rows<{ ownerId: string; desired: string }>(
        'select "ownerId", desired from instance where id = ?',
        id,
      );
      if (!row) return world.fail(`${strayId} was adopted as ${id}, and that is not in the database`);
      // The owner may have listed and changed it by now.
      if (!model.instances.has(id)) model.adopt(checker.instances, checker.volumes, checker.snapshots);
    },
    refused: () => {},
  };
}
