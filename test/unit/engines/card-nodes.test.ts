/** Device nodes of cards, and rules of control groups as kernels print them. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { allows, makeCardNodes, mayOpen } from '../../../src/engines/docker/cards/card-nodes.ts';
import { createOptions } from '../../../src/engines/docker/container/create-options.ts';
import { hostFacts } from './host-facts.ts';
import { specOf } from './simulated-spec.ts';

const uuid = (nth: number): string => `GPU-${String(nth).repeat(8)}-2222-3333-4444-555555555555`;

async function placesOf(cards: Record<string, [uuid: string, minor: number]>, nodes: readonly string[]) {
  const root = await mkdtemp(join(tmpdir(), 'nodes-'));
  onTestFinished(() => rm(root, { recursive: true }));
  for (const [folder, [id, minor]] of Object.entries(cards)) {
    await mkdir(join(root, 'proc', folder), { recursive: true });
    const lines = [`Model: \t\t NVIDIA H200`, `GPU UUID: \t ${id}`, `Device Minor: \t ${minor}`, ''];
    await writeFile(join(root, 'proc', folder, 'information'), lines.join('\n'));
  }
  await mkdir(join(root, 'dev'));
  for (const node of nodes) await writeFile(join(root, 'dev', node), '');
  return { proc: join(root, 'proc'), dev: join(root, 'dev') };
}

it('gives a container the nodes of its cards, and of all cards those that the host has', async () => {
  const cards = { '0000:06:00.0': [uuid(1), 3], '0000:41:00.0': [uuid(2), 0] } as const;
  const places = await placesOf(
    { '0000:06:00.0': [...cards['0000:06:00.0']], '0000:41:00.0': [...cards['0000:41:00.0']] },
    ['nvidia0', 'nvidia3', 'nvidiactl', 'nvidia-uvm'],
  );
  const nodes = makeCardNodes(places);
  expect(await nodes.of(uuid(2))).toBe(`${places.dev}/nvidia0`);
  expect(await nodes.of(uuid(3))).toBeNull();
  expect(await nodes.forContainer([uuid(1)])).toEqual(
    ['nvidiactl', 'nvidia-uvm', 'nvidia3'].map((name) => `${places.dev}/${name}`),
  );
});

it('makes the nodes devices of the container', () => {
  const context = { installation: 'i', network: 'n', controlFolder: '/c', host: hostFacts({ gpuDriver: 'nvidia' }) };
  const devicesOf = (gpuNodes: readonly string[]) =>
    createOptions(specOf('cards'), { ...context, gpuIds: [uuid(1)], gpuNodes }).HostConfig?.Devices;
  expect(devicesOf(['/dev/nvidiactl'])).toEqual([
    { PathOnHost: '/dev/nvidiactl', PathInContainer: '/dev/nvidiactl', CgroupPermissions: 'rw' },
  ]);
  expect(devicesOf([])).toBeUndefined();
});

it('reads the rules of a control group', () => {
  const ofDocker = 'c 1:3 rwm\nc 195:255 rw\nc 195:0 rw\nc *:* m\n';
  expect(allows(ofDocker, 195, 0)).toBe(true);
  expect(allows(ofDocker, 195, 1)).toBe(false);
  expect(allows('c 195:* rwm\n', 195, 1)).toBe(true);
  expect(allows('a *:* rwm\n', 195, 1)).toBe(true);
  expect(allows('b 195:0 rwm\nc 195:0 r\n', 195, 0)).toBe(false);
});

it('knows nothing about a process that has ended', async () => {
  expect(await mayOpen(0x7fffffff, '/dev/null')).toBeNull();
});
