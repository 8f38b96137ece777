/**
 * Checks of `kill.test.ts`: desired states, containers, images and volumes agree exactly once the
 * server has settled.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { expect } from 'vitest';
import type { InstanceObject } from '../../../src/contract/compute/instance.ts';
import { labels } from '../../../src/engines/labels.ts';
import { makeImageFileStorage } from '../../../src/storage/image-file/image-file.ts';
import { docker, installationOf, until } from '../../fixtures/server-process.ts';
import { AGAIN, idOf, listOf, statusOf, type Account, type Desired, type Scene } from './kill-load.ts';

export const PRECIOUS = 'kept through all of it';
const SWEPT_DEADLINE_MS = 240_000;

export const filesOf = (folder: string, volumeId: string): Promise<string> => {
  const at = { root: join(folder, 'disks'), installation: installationOf(folder) };
  return makeImageFileStorage({ ...at, copies: 'live' }).mount({ kind: 'volume', id: volumeId });
};

const isAsDesired: Readonly<Record<Desired, (one: InstanceObject) => boolean>> = {
  running: (one) =>
    statusOf(one) === 'Running' &&
    /init script/.test(one.instanceRuntimeInfo.message) &&
    !/is running/.test(one.instanceRuntimeInfo.message),
  stopped: (one) => statusOf(one) === 'Stopped',
  archived: (one) => statusOf(one) === 'Archived',
  released: (one) => statusOf(one) === 'Released' && one.instanceRuntimeInfo.phase === 'Cleaned',
};

/**
 * Every launch that was acknowledged is listed once, nothing else is listed, and each instance is
 * in its desired state.
 */
export async function settledList(account: Account): Promise<InstanceObject[]> {
  // A launch whose answer was lost appears in the list, and counts as any other from then on.
  for (const one of await listOf(account)) {
    const { name } = one.instanceSpecInfo;
    if (account.unsure.delete(name)) {
      account.sure.set(name, idOf(one));
      account.desired.set(idOf(one), new Set(['running']));
    }
  }
  const expected = [...account.sure].map(([name, id]) => `${name} ${id}`).sort();
  const isOtherwise = (one: InstanceObject): boolean => {
    const desired = account.desired.get(idOf(one)) ?? new Set();
    return ![...desired].some((state) => isAsDesired[state](one));
  };
  const described = (one: InstanceObject) => ({
    id: idOf(one),
    desired: [...(account.desired.get(idOf(one)) ?? [])],
    is: one.instanceRuntimeInfo,
  });
  await until(
    async () => (await listOf(account)).filter(isOtherwise).map(described),
    (left) => left.length === 0,
  );
  const listed = await listOf(account);
  expect(listed.map((one) => `${one.instanceSpecInfo.name} ${idOf(one)}`).sort()).toEqual(expected);
  return listed;
}

interface Container {
  id: string;
  running: boolean;
  nodePorts: number[];
}

async function containersOf(installation: string): Promise<Container[]> {
  const filters = { label: [`${labels.installation}=${installation}`, `${labels.kind}=instance`] };
  const found = await docker.listContainers({ all: true, filters });
  return Promise.all(
    found.map(async ({ Id, Labels, State }) => {
      const { HostConfig } = await docker.getContainer(Id).inspect();
      const bindings: Record<string, { HostPort?: string }[]> = HostConfig.PortBindings ?? {};
      const nodePorts = Object.values(bindings).flatMap((hosts) => hosts.map(({ HostPort }) => Number(HostPort)));
      return { id: Labels[labels.id] ?? '?', running: State === 'running', nodePorts };
    }),
  );
}

async function savedIds(installation: string): Promise<string[]> {
  const filters = { label: [`${labels.installation}=${installation}`, `${labels.kind}=image`] };
  const found = await docker.listImages({ filters: JSON.stringify(filters) });
  return found.map(({ Labels }) => Labels[labels.id] ?? '?');
}

/** The remains of a save that was cut short are listed to the operator, who has them deleted. */
export async function savesAreListed({ server, admin }: Scene): Promise<void> {
  const installation = installationOf(server.folder);
  const left = (await savedIds(installation)).sort();
  if (left.length === 0) return;
  // A start sweeps at once, and an orphan is what two sweeps have found.
  for (let sweeps = 0; sweeps < 2; sweeps++) {
    await server.kill('SIGTERM');
    await server.start();
  }
  const { strays: orphans } = await until(
    () => admin.listStrays(),
    (reported) => isDeepStrictEqual(reported.strays.map(({ subjectId }) => subjectId).sort(), left),
    SWEPT_DEADLINE_MS,
  );
  for (const { strayId } of orphans) await admin.handleStray({ strayId, action: 'delete' });
  await until(
    () => savedIds(installation),
    (saved) => saved.length === 0,
    SWEPT_DEADLINE_MS,
  );
}

/** Desired states and what the engine holds agree exactly. */
export async function expectAgreement(scene: Scene): Promise<void> {
  const installation = installationOf(scene.server.folder);
  const listed = (await Promise.all(scene.accounts.map(settledList))).flat();
  const ids = (...statuses: string[]): string[] =>
    listed
      .filter((one) => statuses.includes(statusOf(one)))
      .map(idOf)
      .sort();
  const containers = await containersOf(installation);
  const present = containers.map(({ id }) => id).sort();
  expect(new Set(present).size).toBe(present.length);
  expect(
    containers
      .filter(({ running }) => running)
      .map(({ id }) => id)
      .sort(),
  ).toEqual(ids('Running'));
  // An instance that was stopped before it ever had a container needs none.
  const neverMade = ids('Stopped').filter((id) => !present.includes(id));
  expect([...present, ...neverMade].sort()).toEqual(ids('Running', 'Stopped'));

  const saved = await savedIds(installation);
  const archivedOnce = scene.accounts.flatMap((account) => [...account.archivedOnce]);
  expect(saved.filter((id) => !archivedOnce.includes(id))).toEqual([]);
  const without = listed.filter((one) => statusOf(one) === 'Archived' && !saved.includes(idOf(one)));
  expect(
    without
      .map(({ instanceRuntimeInfo: { message } }) => message)
      .filter((said) => !said.startsWith('there was no root disk')),
  ).toEqual([]);

  const nodePorts = containers.flatMap((one) => one.nodePorts);
  expect(new Set(nodePorts).size).toBe(nodePorts.length);
  for (const one of listed.filter((each) => statusOf(each) === 'Running')) {
    const published = one.instanceSpecInfo.nodePorts.map(({ nodePort }) => nodePort);
    expect(published).toEqual(containers.find(({ id }) => id === idOf(one))?.nodePorts);
  }
  await volumesHold(scene, listed);
}

/** Each volume holds what was written, and one folder for each root disk whose init script ran. */
export async function volumesHold({ accounts, server }: Scene, listed: InstanceObject[]): Promise<void> {
  const written: string[] = [];
  for (const { volumeId } of accounts) {
    const folder = await filesOf(server.folder, volumeId);
    written.push(...(await readdir(folder)));
    expect(await readFile(join(folder, 'precious'), 'utf8')).toBe(PRECIOUS);
  }
  expect(written.filter((name) => name.endsWith(AGAIN))).toEqual([]);
  const ran = listed.filter(({ instanceRuntimeInfo: { message } }) => message === 'the init script exited with code 0');
  expect(ran.map(idOf).filter((id) => !written.includes(id))).toEqual([]);
}
