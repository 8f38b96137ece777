/** Unfinished work of a world, and violations after faults stop; empty when converged. */
import { diskKey } from '../../src/domain/storage/disk.ts';
import { diskIdsOf } from '../../src/domain/storage/disk-usage.ts';
import { stopDueAtMs } from '../../src/domain/compute/stop-policy.ts';
import { isLasting } from '../../src/domain/compute/instance-states.ts';
import { ownedBy } from '../../src/engines/simulated/observation-verbs.ts';
import { fileOf } from '../../src/engines/simulated/container.ts';
import { openRequests } from './client.ts';
import { wrongAtRest, type StoredInstance } from './invariants.ts';
import { ownImages } from './instance-requests.ts';
import type { SimulatedRegion } from './simulated-region.ts';
import { ids } from './template.ts';
import type { World } from './world.ts';

/** Of one region, or of all. */
export function unfinished(world: World, ...only: SimulatedRegion[]): string[] {
  const { server } = world;
  if (!server?.running) return ['no server is up'];
  const [waiting] = openRequests.get(world) ?? [];
  if (waiting) return [`nobody has answered: ${waiting.text}`];
  return (only.length > 0 ? only : world.regions).flatMap((one) => unfinishedIn(world, one));
}

function unfinishedIn(world: World, { engine, storage, region }: SimulatedRegion): string[] {
  const { checker } = world;
  const sql = ['instance', 'volume', 'snapshot'].map(
    (table) => `select id from ${table} where leaseOwner is not null and regionId = ?`,
  );
  const busy = checker.rows<{ id: string }>(sql.join(' union '), region.id, region.id, region.id);
  if (busy.length > 0) return busy.map(({ id }) => `${id} is in hand`);
  const inRegion = <Row extends { regionId: string }>(rows: Iterable<Row>): Row[] =>
    [...rows].filter(({ regionId }) => regionId === region.id);
  const all = [...checker.instances.values()].filter(({ row }) => row.regionId === region.id);
  const past = new Map(
    checker
      .rows<{ subjectId: string; count: number }>(
        'select subjectId, count(*) as count from operation group by subjectId',
      )
      .map(({ subjectId, count }) => [subjectId, count]),
  );
  const wrong = wrongAtRest(all, ownedBy(engine.host, ids.installation));

  for (const { row, instance } of all) {
    const { desired, observed } = instance;
    if (!isLasting(observed.status) && !mayWait(instance)) wrong.push(`${row.id} is still ${observed.status}`);
    if (desired === 'running' && observed.status !== 'Running' && !mayWait(instance))
      wrong.push(`${row.id} is to run, and is ${observed.status}`);
    if (desired === 'running' && observed.diagnosis !== '' && !mayWait(instance))
      wrong.push(`${row.id} runs, and says ${observed.diagnosis}`);
    const overMs = stopDueAtMs(instance);
    if (overMs !== null && overMs < world.wallClock.now() - 10_000) wrong.push(`${row.id} runs, and its time was over`);
    if (desired === 'archived' && observed.status !== 'Archived')
      wrong.push(`${row.id} is to be archived, and is ${observed.status}`);
    if (desired === 'stopped' && observed.status === 'Running') wrong.push(`${row.id} is stopped, and says Running`);
    if (desired === 'stopped' && row.holdsCapacity === 1) wrong.push(`${row.id} is stopped, and holds capacity`);
    if (desired === 'released' && observed.phase !== 'Cleaned')
      wrong.push(`${row.id} is released, and ${observed.phase}`);
    const requests = (past.get(row.id) ?? 0) + 1;
    if (requests !== row.generation) wrong.push(`${row.id} had ${row.generation} requests, but ${requests} operations`);
    const disk = storage.there.has(`data/${row.id}`);
    if (disk && desired === 'released') wrong.push(`${row.id} is released, and its data disk is there`);
    if (!disk && desired === 'running' && !mayWait(instance)) wrong.push(`${row.id} runs, and its data disk is gone`);
    const container = engine.host.find(ids.installation, instance.id);
    if (desired !== 'running' || container?.state !== 'running') continue;
    const keys = checker.rows<{ publicKey: string }>('select publicKey from sshKey where accountId = ?', row.ownerId);
    const given = (fileOf(container.spec, 'authorized_keys')?.content ?? '').split('\n').filter((line) => line !== '');
    const should = keys.map(({ publicKey }) => publicKey);
    if (given.toSorted().join() !== should.toSorted().join() && !world.falselyEnsured.has(row.id))
      wrong.push(`${row.id} lets in by ${given.length} ssh keys, not by these ${should.length}`);
    if (JSON.stringify(container.spec.nodePorts) !== JSON.stringify(instance.nodePorts))
      wrong.push(`${row.id} has other node ports than it says`);
  }
  for (const { id, unfinished } of checker.rows<{ id: string; unfinished: string }>(
    "select id, unfinished from instance where unfinished <> '[]' and regionId = ?",
    region.id,
  ))
    wrong.push(`${id} is at rest, and still names ${unfinished}`);
  for (const { id, state, regionId } of ownImages(world))
    if (regionId === region.id && (state === 'Saving' || state === 'Deleting'))
      wrong.push(`image ${id} is still ${state}`);
  for (const { id, status, sizeGB, operation } of inRegion(checker.volumes.values())) {
    const there = storage.there.has(`volume/${id}`);
    if (status === 'Pending' || status === 'Terminating') wrong.push(`volume ${id} is still ${status}`);
    if ((status === 'Bound') !== there)
      wrong.push(`volume ${id} is ${status}, and its backing is ${there ? 'there' : 'gone'}`);
    const has = storage.there.get(`volume/${id}`);
    if (has !== undefined && has < sizeGB) wrong.push(`volume ${id} has ${has} GB, and was promised ${sizeGB}`);
    if (status === 'Bound' && JSON.parse(operation).endedAtMs === null)
      wrong.push(`volume ${id} is Bound, and its operation has not ended`);
  }
  for (const { id, status } of inRegion(checker.snapshots.values())) {
    const there = storage.there.has(`snapshot/${id}`);
    if (status === 'Pending' || status === 'Terminating') wrong.push(`snapshot ${id} is still ${status}`);
    if ((status === 'Ready') !== there)
      wrong.push(`snapshot ${id} is ${status}, and its backing is ${there ? 'there' : 'gone'}`);
  }
  for (const disk of storage.begun) wrong.push(`a copy to ${disk} was begun, and is left`);
  for (const disk of storage.there.keys()) {
    const holds = storage.holds.get(disk);
    if (holds !== checker.originOf(disk))
      wrong.push(`${disk} holds what ${holds} held, and was to hold what ${checker.originOf(disk)} did`);
    const [kind = '', id = ''] = disk.split('/');
    if (kind === 'volume' && !checker.volumes.has(id)) wrong.push(`${disk} is left, and there is no such volume`);
    if (kind === 'snapshot' && !checker.snapshots.has(id)) wrong.push(`${disk} is left, and there is no such snapshot`);
    if (kind === 'data' && !checker.instances.has(id)) wrong.push(`${disk} is left, and there is no such instance`);
    if (kind === 'shared' && !disk.endsWith(`/${region.id}`)) wrong.push(`${disk} is nobody's`);
  }
  const needed = new Set(all.filter(({ instance }) => instance.desired === 'running').flatMap(disksOfInstance));
  for (const disk of storage.mounted) if (!needed.has(disk)) wrong.push(`${disk} is mounted, and nobody needs it`);
  for (const { row, instance } of all)
    if (instance.desired === 'running' && !mayWait(instance))
      for (const disk of disksOfInstance({ instance }))
        if (!storage.mounted.has(disk)) wrong.push(`${row.id} runs, and its ${disk} is not mounted`);
  return wrong;
}

/** Waits for an off-peak window, or for capacity without an end. */
const mayWait = ({ notBeforeMs, waitsSinceMs, waitsUntilMs }: StoredInstance['instance']): boolean =>
  notBeforeMs !== null || (waitsSinceMs !== null && waitsUntilMs === null);

const disksOfInstance = ({ instance }: Pick<StoredInstance, 'instance'>): string[] => diskIdsOf(instance).map(diskKey);

/** Objects left after everything was deleted. */
export function leftovers(world: World): string[] {
  const { checker } = world;
  const wrong = world.regions.flatMap(({ engine, storage }) => [
    ...ownedBy(engine.host, ids.installation).map(
      ({ kind, engineName }) => `the engine still holds the ${kind} ${engineName}`,
    ),
    ...[...storage.there.keys()].filter((disk) => !disk.startsWith('shared/')).map((disk) => `${disk} is left`),
  ]);
  for (const { id } of checker.rows<{ id: string }>('select id from disk'))
    if (!id.startsWith('shared/')) wrong.push(`${id} is left written down`);
  for (const table of ['nodePort', 'mount', 'volume', 'snapshot'])
    for (const row of checker.rows(`select * from ${table}`)) wrong.push(`${table} is left: ${JSON.stringify(row)}`);
  const used = checker.rows<Record<string, number>>(
    'select cpuMilliUsed, memoryMiBUsed, length(gpusUsed) - 2 as gpusUsed, nodePortsUsed from region',
  );
  for (const row of used)
    if (Object.values(row).some((count) => count !== 0)) wrong.push(`the region still counts ${JSON.stringify(row)}`);
  return wrong;
}
