/**
 * Control for the API's tests: real, on a real store, with a catalog of one region. No loop runs,
 * so a launched instance stays as requested: only the edge is tested.
 */
import { openUrl } from '../../../src/main/public-addresses.ts';
import { randomBytes, randomUUID } from 'node:crypto';
import { makeControl } from '../../../src/main/control.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { makeRegions } from '../../../src/control/kernel/regions.ts';
import type { Control } from '../../../src/control/index.ts';
import { EngineFault } from '../../../src/domain/regions/engine-fault.ts';
import { imageId, instanceTypeId, regionId } from '../../../src/domain/kernel/ids.ts';
import { type ChargeMode, fromDollars } from '../../../src/domain/regions/catalog.ts';
import type { Engine, Probe } from '../../../src/engines/contract.ts';
import type { Store } from '../../../src/store/store.ts';
import type { Storage } from '../../../src/storage/contract.ts';
import { saveRegion } from '../../../src/store/tables/catalog.ts';
import { insertManagedImage, insertManagedType } from '../../../src/store/tables/catalog-rows.ts';
import { signingKeysSince } from '../../../src/store/tables/signing-keys.ts';
import { makeControlDeps, makeDrivers } from '../../fixtures/control-deps.ts';
import { isolated } from '../../fixtures/isolation.ts';
import { aRegion } from '../../fixtures/region.ts';
import { makeAudit } from '../../../src/control/access/audit/audit.ts';
import { auditAfter, type AuditRow } from '../../../src/store/tables/audit.ts';
import { secretsKey } from '../../fixtures/test-seal.ts';
import { openTempStore } from '../../fixtures/store.ts';

export const ADMIN_PASSWORD = 'a password for tests';
export const GATEWAY_ORIGIN = 'http://127.0.0.1:1';
export const PORT_DOMAIN = 'gpu.test';
const addresses = { apiUrl: '', gatewayUrl: GATEWAY_ORIGIN, domain: PORT_DOMAIN, portDomain: PORT_DOMAIN };
export const ISSUER = 'https://berth.test';
export const AUDIENCE = 'berth-test';

export const ids = {
  image: '5a3f9d0e-3a55-4a9e-9a52-0a4b3f1d7c01',
  type: '5a3f9d0e-3a55-4a9e-9a52-0a4b3f1d7c02',
  region: '5a3f9d0e-3a55-4a9e-9a52-0a4b3f1d7c03',
};

export interface WiredControl {
  control: Control;
  store: Store;
  /** The key that signs tokens now, for forgeries that only its holder could make. */
  signingKey(): Promise<{ kid: string; privateJwk: string; publicJwk: string }>;
  /** Seals and returns the audit log, oldest first. */
  audited(): Promise<AuditRow[]>;
  stop(): Promise<void>;
}

export async function wireControl(log: Parameters<typeof makeControl>[0]['log']): Promise<WiredControl> {
  const { store, remove } = await openTempStore();
  await store.write(async (tx) => {
    const region = regionId(ids.region);
    await saveRegion(
      tx,
      aRegion({ id: region, name: 'Test', value: 'test', domain: '127.0.0.1:1', sshAddress: '127.0.0.1' }),
      { cpuMilli: 1_000_000, memoryMiB: 1_000_000, gpus: {}, nodePorts: 2_000 },
    );
    await insertManagedImage(tx, {
      createdAtMs: 1,
      version: 1,
      isRetired: false,
      id: imageId(ids.image),
      name: 'base',
      ref: 'test/base:1',
      architecture: 'x86_64',
      isPublic: true,
      tags: [],
      type: 'notebook',
    });
    await insertManagedType(tx, {
      version: 1,
      isRetired: false,
      id: instanceTypeId(ids.type),
      regionId: region,
      name: 'small',
      isSpot: false,
      cpuCores: 1,
      cpuType: 'x86_64',
      memoryGB: 1,
      gpuCount: 0,
      gpuName: '',
      rootDiskGB: 10,
      dataDiskGB: 10,
      pricesMicros: {
        tidePerHour: fromDollars(0.05),
        perHour: fromDollars(0.1),
        perDay: fromDollars(2),
        perWeek: fromDollars(12),
        perMonth: fromDollars(40),
      } satisfies Record<ChargeMode, bigint>,
    });
  });
  const drivers = makeDrivers({
    regionId: regionId(ids.region),
    engine: restingEngine,
    pool: { storage: emptyStorage },
    health: { probe, answers: true, text: 'the engine rests' },
  });
  const running = makeControl(
    makeControlDeps({
      store,
      regions: makeRegions([drivers]),
      log,
      time: realTime,
      openRegion: async ({ id, settings }) => ({
        ...drivers,
        regionId: id,
        nodePortRange: settings.nodePorts,
        health: { probe: null, answers: false, text: '' },
      }),
      random: Math.random,
      randomUuid: randomUUID,
      randomBytes,
      openUrl: (link) => openUrl(addresses, link),
      portUrls: ({ instanceId, port }) => ({
        path: `${GATEWAY_ORIGIN}/forward/${instanceId}/${port}/`,
        host: `http://${port}-${instanceId}.gpu.test/`,
      }),
      shareUrl: ({ instanceId, port, token }) =>
        `${GATEWAY_ORIGIN}/forward/${instanceId}/${port}/?berth_share=${token}`,
      issuer: ISSUER,
      audience: AUDIENCE,
      engineWidth: 1,
      alone: true,
    }),
  );
  await running.freeSpace.measure();
  await running.access.ensureSigningKey();
  await running.access.ensureAdmin({ password: ADMIN_PASSWORD, balance: 1_000 });
  return {
    control: running.control,
    store,
    async audited() {
      await makeAudit({ store, time: realTime, log, secretsKey }).seal();
      return auditAfter(store.read, 0, 10_000);
    },
    async signingKey() {
      const [key] = await signingKeysSince(store.read, 0);
      if (!key) throw new Error('no signing key');
      return key;
    },
    async stop() {
      await running.stop();
      await remove();
    },
  };
}

const probe: Probe = {
  version: 'resting 1',
  capacity: { cpuMilli: 1_000_000, memoryMiB: 1_000_000, gpus: {} },
  devices: [
    {
      kind: 'gpu',
      name: 'NVIDIA H200',
      id: '0',
      uuid: 'GPU-0',
      facts: { driverVersion: '580.159.04', cudaVersion: '13.0', numaNode: 1, links: { 'GPU-1': 'NV18' } },
    },
    { kind: 'gpu', name: 'NVIDIA H200', id: '1' },
  ],
  architecture: 'x86_64',
  capabilities: {
    rootDiskLimit: 'none',
    keepsRootDisk: true,
    dockerInside: true,
    saveImage: false,
    gpus: false,
    dial: false,
    joinNetwork: false,
    listenUnix: true,
    processLimit: true,
    isolation: isolated,
    sizes: { processors: true, memory: true },
  },
};

const away = async (): Promise<never> => {
  throw new EngineFault('unreachable', 'the engine rests', { retry: true });
};

const restingEngine: Engine = {
  probe: async () => probe,
  listOwned: away,
  observe: async (asked) => new Map(asked.map((id) => [id, { kind: 'unknown', reason: 'the engine rests' }])),
  ensureImage: away,
  checkImage: away,
  describeImage: away,
  ensure: away,
  setEgress: async () => {},
  halt: away,
  destroy: away,
  saveImage: away,
  pushImage: away,
  removeImage: away,
  discard: away,
  watch: () => {},
  logs: away,
  followLogs: away,
  openExec: away,
  exec: away,
  dial: away,
  joinNetwork: away,
  listenUnix: away,
  usage: away,
  rootDiskSpace: async () => null,
  stop: async () => {},
};

const emptyStorage: Storage = {
  capabilities: () => ({ sizeLimit: 'soft', usage: 'walk', copies: 'live', dockerInside: false }),
  create: away,
  grow: away,
  allocation: async () => null,
  largestEntries: away,
  unmount: away,
  mount: away,
  files: away,
  usage: async () => null,
  observe: async () => ({ kind: 'unknown', reason: 'the storage rests' }),
  destroy: away,
  listOwned: away,
  listMounted: away,
  space: async () => ({ totalBytes: 2 ** 50, freeBytes: 2 ** 50 }),
};
