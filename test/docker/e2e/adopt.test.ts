/**
 * Adopts a container whose instance a restored database does not know; afterwards it is an instance
 * as any other.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { containerName } from '../../../src/engines/labels.ts';
import { instanceId } from '../../../src/domain/kernel/ids.ts';
import { hastened, startInside, type ServerInside } from './in-process-server.ts';
import { docker, until } from '../../fixtures/server-process.ts';

let inside: ServerInside;
beforeAll(async () => {
  inside = await startInside({
    nodePorts: '31450-31499',
    limits: { stopGraceMs: 2_000 },
    time: hastened,
    settings: { BERTH_STRAYS: 'report' },
  });
}, 120_000);
afterAll(async () => {
  await inside?.stop();
});

/** Deletes the rows, as a backup from before the launch would have. */
async function forget(id: string): Promise<void> {
  const { store } = inside.server;
  await until(
    () => inside.row(id),
    ({ filesStale, operation }) => !filesStale && operation.endedAtMs !== null,
  );
  await store.write(async (tx) => {
    const { nodePorts } = await inside.row(id);
    await tx.deleteFrom('nodePort').where('instanceId', '=', id).execute();
    await tx.deleteFrom('instance').where('id', '=', id).execute();
    const none = { cpuMilliUsed: 0, memoryMiBUsed: 0, nodePortsUsed: 0 };
    await tx.updateTable('region').set(none).execute();
    await tx.updateTable('account').set({ instanceCount: 0 }).execute();
    expect(nodePorts).toHaveLength(2);
  });
}

test('an adopted instance keeps container, root disk, node ports and notebook secret, and can be stopped, started and terminated', async () => {
  const { client, server } = inside;
  const id = await inside.launch({ imageId: await inside.offerTiny(), nodePorts: [8000] });
  await inside.sees(id, { status: 'Running' });
  const { engine } = server.drivers.drivers;
  const seconds = (): AbortSignal => AbortSignal.timeout(10_000);
  await engine.exec(instanceId(id), ['touch', '/root/kept'], seconds());
  const { nodePorts } = await inside.row(id);
  const token = async () =>
    (await engine.exec(instanceId(id), ['cat', '/etc/berth/notebook-token'], seconds())).stdout.trim();
  const secret = await token();
  const container = docker.getContainer(containerName(instanceId(id)));
  const { Id } = await container.inspect();
  await forget(id);

  const { strays: orphans } = await until(
    () => client.listStrays(),
    (reported) => reported.strays.length > 0,
  );
  expect(orphans).toMatchObject([
    { kind: 'instance', subjectId: id, ownerName: 'admin', running: true, deletedInSeconds: null },
  ]);
  const { strayId } = orphans[0] ?? { strayId: '' };
  const { instanceTypeId } = server.example;
  expect(await client.handleStray({ strayId, action: 'adopt', instanceTypeId, name: 'found' })).toEqual({
    strayId,
    instanceId: id,
  });
  const adopted = await inside.sees(id, { status: 'Running', diagnosisReason: '' });
  expect(adopted.instanceSpecInfo.name).toBe('found');
  expect((await inside.row(id)).nodePorts).toEqual(nodePorts);
  expect(await token()).toBe(secret);
  await expect(client.handleStray({ strayId, action: 'adopt', instanceTypeId })).rejects.toMatchObject({
    status: 409,
    message: expect.stringContaining('already adopted'),
  });

  await client.stop({ instanceId: id });
  await inside.sees(id, { status: 'Stopped' });
  await client.start({ instanceId: id });
  await inside.sees(id, { status: 'Running' });
  expect((await container.inspect()).Id).toBe(Id);
  expect((await engine.exec(instanceId(id), ['ls', '/root/kept'], seconds())).exitCode).toBe(0);
  await inside.removeAll(id);
  expect((await inside.counted()).used).toMatchObject({ cpuMilli: 0, nodePorts: 0 });
});
