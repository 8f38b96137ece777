/**
 * A whole Berth in the test's process, on this machine's container engine, with limits, clock and
 * engine of the test's choice.
 */
import { removeDataFolder } from '../../../scripts/lib/remove-data-folder.mjs';
import { randomUUID } from 'node:crypto';
import { access, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type Docker from 'dockerode';
import { pino } from 'pino';
import { expect } from 'vitest';
import type { InstanceObject, LaunchRequest } from '../../../src/contract/compute/instance.ts';
import { realTime, type Time } from '../../../src/control/kernel/time.ts';
import type { IdleLimits } from '../../../src/domain/compute/idle.ts';
import {
  diagnoses,
  type Diagnosis,
  type InstanceStatus,
  type Limits,
} from '../../../src/domain/compute/instance-states.ts';
import type { Instance } from '../../../src/domain/compute/instance.ts';
import { labels } from '../../../src/engines/labels.ts';
import { readConfig } from '../../../src/main/config.ts';
import { offerImage, thisMachine } from '../../../src/main/first-run.ts';
import { startServer, type Server } from '../../../src/main/server.ts';
import { regionWithUsage, type RegionWithUsage } from '../../../src/store/tables/catalog.ts';
import { instanceFromRow, instanceRow } from '../../../src/store/tables/instances.ts';
import { importBusybox, type ImageFile } from '../engines/docker-fixture.ts';
import {
  docker,
  installationOf,
  login,
  ownedNames,
  PASSWORD,
  removeAll,
  until,
  type Client,
} from '../../fixtures/server-process.ts';

/** Fields in which a launch differs from the default. */
export type LaunchOptions = Partial<
  Pick<LaunchRequest, 'imageId' | 'startCommand' | 'remoteStorages' | 'nodePorts' | 'runImageCommand' | 'environment'>
> & {
  initScript?: string;
};

export interface ServerInside {
  server: Server;
  client: Client;
  folder: string;
  /** Adds an image to the catalog and returns its id. */
  offer(ref: string): Promise<string>;
  /**
   * Makes a tiny image with the files on this machine's engine, adds it to the catalog and returns
   * its id.
   */
  offerTiny(files?: Readonly<Record<string, ImageFile>>): Promise<string>;
  launch(options: LaunchOptions): Promise<string>;
  /** Waits until the owner's view shows the state. */
  sees(
    id: string,
    wanted: Partial<InstanceObject['instanceRuntimeInfo']>,
    deadlineMs?: number,
  ): Promise<InstanceObject>;
  /**
   * Waits until the instance failed permanently for the reason, and checks that it explains itself,
   * holds no capacity and can be terminated. Returns its message.
   */
  givenUp(id: string, wanted: { status: InstanceStatus; reason: Diagnosis; hadRun?: boolean }): Promise<string>;
  /** The stored row. */
  row(id: string): Promise<Instance & { holdsCapacity: boolean }>;
  /** Each `status/phase/diagnosis` of its events, in order. */
  story(id: string): Promise<string[]>;
  /** Terminates them and waits until nothing is left on the engine, in storage or in the store. */
  removeAll(...ids: string[]): Promise<void>;
  counted(): Promise<RegionWithUsage>;
  stop(): Promise<void>;
}

/** Timers fire ten times as often, and ages grow ten times as fast: a 30 s check runs every 3 s. */
export const hastened: Time = {
  ...realTime,
  elapsed: () => realTime.elapsed() * 10,
  every: (ms, fn) => realTime.every(ms / 10, fn),
};

export async function startInside({
  nodePorts,
  limits,
  time = realTime,
  engineAt = process.env['DOCKER_HOST'],
  engine = docker,
  idle = null,
  settings = {},
  under = tmpdir(),
}: {
  nodePorts: string;
  limits: Partial<Limits>;
  time?: Time;
  /** Address of the engine in the form of `DOCKER_HOST`. */
  engineAt?: string | undefined;
  /** The same engine, past Berth. */
  engine?: Docker;
  /** Idle policy of new instances, and the limits of idle detection. */
  idle?: { afterMs: number; limits: Partial<IdleLimits> } | null;
  /** Further `BERTH_*` settings. */
  settings?: Readonly<Record<string, string>>;
  /** Parent of the data folder. */
  under?: string;
}): Promise<ServerInside> {
  const folder = await mkdtemp(join(under, 'berth-inside-'));
  const config = readConfig({
    BERTH_DATA: folder,
    BERTH_LISTEN: '127.0.0.1:0',
    BERTH_GATEWAY_LISTEN: '127.0.0.1:0',
    BERTH_ADMIN_PASSWORD: PASSWORD,
    BERTH_NODE_PORTS: nodePorts,
    BERTH_NODE_PORT_ADDRESS: '127.0.0.1',
    BERTH_REGISTRY_IMAGES: 'off',
    BERTH_KERNEL_LIMITS: 'check',
    BERTH_LOCAL_REGISTRIES: 'allow',
    BERTH_CPU_OVERCOMMIT: '50',
    BERTH_POOL: 'overcommit=100',
    DOCKER_HOST: engineAt,
    ...settings,
  });
  const log = pino({ level: process.env['BERTH_TEST_LOG'] ?? 'silent' });
  const server = await startServer({
    config: { ...config, idleStopMs: idle?.afterMs ?? null },
    log,
    limits,
    idleLimits: idle?.limits ?? {},
    time,
  });
  const { store, example } = server;
  const installation = installationOf(folder);
  const { client } = await login(server);
  let names = 0;
  const tiny: string[] = [];
  const offer = async (ref: string): Promise<string> => {
    const image = { key: ref, name: ref, ref, tags: [], architecture: thisMachine().architecture };
    const id = await offerImage(store, image, { nowMs: Date.now(), uuid: randomUUID });
    // The catalog is read once a second.
    await until(
      () => client.listImages({ pager: { currentPage: 1, pageSize: 500 } }),
      ({ images }) => images.some(({ imageId }) => imageId === id),
    );
    return id;
  };

  const listed = async (id: string): Promise<InstanceObject> => {
    const { instances } = await client.listInstances({ pager: { currentPage: 1, pageSize: 500 } });
    const found = instances.find((one) => one.instanceMetadata.instanceId === id);
    if (!found) throw new Error(`${id} is not listed`);
    return found;
  };
  const sees: ServerInside['sees'] = (id, wanted, deadlineMs = 120_000) =>
    until(
      () => listed(id),
      ({ instanceRuntimeInfo: now }) =>
        Object.entries(wanted).every(([name, value]) => Reflect.get(now, name) === value),
      deadlineMs,
    );
  const row: ServerInside['row'] = async (id) => {
    const found = await instanceRow(store.read, id);
    if (!found) throw new Error(`${id} has no row`);
    return { ...instanceFromRow(found), holdsCapacity: found.holdsCapacity === 1 };
  };
  const leftOf = async (id: string): Promise<string[]> => {
    const filters = { label: [`${labels.installation}=${installation}`, `${labels.id}=${id}`] };
    const containers = await engine.listContainers({ all: true, filters });
    const images = await engine.listImages({ filters: JSON.stringify(filters) });
    const folders = [join(folder, 'disks/data', id), join(folder, 'control-files', id)];
    const there = await Promise.all(
      folders.map((one) =>
        access(one).then(
          () => [one],
          () => [],
        ),
      ),
    );
    return [...containers.map(({ Id }) => Id), ...images.map(({ Id }) => Id), ...there.flat()];
  };

  return {
    server,
    client,
    folder,
    offer,
    async offerTiny(files = {}) {
      const ref = `berth.local/tiny:${randomUUID()}`;
      tiny.push(ref);
      await importBusybox(engine, ref, folder, files);
      return offer(ref);
    },
    async launch({ initScript = '', ...options }) {
      names += 1;
      const { instanceId } = await client.launch({
        name: `inside ${names}`,
        ...example,
        billing: { chargeMode: 'perHour', duration: 1 },
        remoteStorages: [],
        nodePorts: [],
        instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript },
        ...options,
      });
      return instanceId;
    },
    sees,
    async givenUp(id, { status, reason, hadRun = false }) {
      const { instanceRuntimeInfo: now, actions } = await sees(id, { status, diagnosisReason: reason });
      expect(now).toMatchObject({ phase: 'Failed', healthy: false });
      expect(now.stopTimestamp).toBeGreaterThan(0);
      expect(now.diagnosisMessage).not.toBe('');
      expect(actions).toEqual(expect.arrayContaining(['start', 'terminate']));
      const { holdsCapacity, desired, operation } = await row(id);
      expect({ holdsCapacity, desired }).toEqual({ holdsCapacity: false, desired: 'stopped' });
      const { diagnosisMessage: message } = now;
      // An instance that was Running by then succeeded; a later failure is not this operation's.
      const failed = { state: 'Failed', error: { reason, message, whatToDo: diagnoses[reason] } };
      expect(operation).toMatchObject(hadRun ? { state: 'Succeeded', error: null } : failed);
      return message;
    },
    row,
    async story(id) {
      const events = await store.read
        .selectFrom('event')
        .select('data')
        .where('subjectId', '=', id)
        .orderBy('id')
        .execute();
      return events.flatMap(({ data }) => {
        const {
          status,
          phase,
          diagnosis = '',
        }: { status?: string; phase?: string; diagnosis?: string } = JSON.parse(data);
        return status === undefined ? [] : [`${status}/${phase}/${diagnosis}`];
      });
    },
    async removeAll(...ids) {
      await Promise.all(ids.map((instanceId) => client.terminate({ instanceId })));
      await until(
        async () =>
          (await Promise.all(ids.map(row))).map(({ id, holdsCapacity, observed }) => ({ id, holdsCapacity, observed })),
        (rows) => rows.every(({ observed, holdsCapacity }) => observed.phase === 'Cleaned' && !holdsCapacity),
      );
      await until(
        async () => (await Promise.all(ids.map(leftOf))).flat(),
        (left) => left.length === 0,
      );
    },
    async counted() {
      const counted = await regionWithUsage(store.read, example.region);
      if (!counted) throw new Error('there is no region');
      return counted;
    },
    async stop() {
      await server.stop();
      await removeAll(installation, engine);
      for (const ref of tiny) await engine.getImage(ref).remove({ force: true });
      if ((await ownedNames(installation, engine)).length > 0)
        throw new Error('something of this installation is still there');
      removeDataFolder(folder);
    },
  };
}
