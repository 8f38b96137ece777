/** Migrations create the tables described by `schema.ts`, on both engines. */
import type { Insertable } from 'kysely';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import type { Schema } from '../../../src/store/db/schema.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { billingRows } from './billing-rows.ts';
import { accountRow, instanceRow, regionRow, volumeRow } from './rows.ts';

type Rows = { [Table in keyof Schema]: Required<Insertable<Schema[Table]>> };

const BIG = Number.MAX_SAFE_INTEGER;
const lease = { dueAtMs: BIG, leaseOwner: 'p', leaseToken: 't', leaseUntilMs: BIG };
const counted = {
  version: BIG,
  eventSeq: 1,
  instanceCount: 2,
  volumeCount: 3,
  balanceMicros: -BIG,
  voucherMicros: 4,
  creditMicros: 5,
  usage: '{}',
};
const owned = { id: 'x', ownerId: 'ann', regionId: 'here' };

const plain = (row: unknown): object =>
  Object.fromEntries(
    Object.entries(row ?? {}).map(([name, value]) => [name, Buffer.isBuffer(value) ? new Uint8Array(value) : value]),
  );

/** Parents come first. A missing column here does not compile; one missing in a table fails. */
const rows: Rows = {
  metricMinute: { atMs: BIG, part: 1, body: new Uint8Array([0, 255]) },
  metricHour: { instanceId: 'x', atMs: BIG, body: new Uint8Array([0, 255]) },
  setting: { name: 'installation', value: 'ü' },
  dueAct: {
    id: 'stop/x',
    kind: 'stop',
    subjectId: 'x',
    ownerId: 'ann',
    attempts: 1,
    error: 'ü',
    generation: BIG,
    ...lease,
  },
  watch: { kind: 'idle', subjectId: 'x', regionId: 'here', sinceMs: BIG, run: 'ü', usedAtMs: BIG, willStopAtMs: BIG },
  quota: { accountId: 'ann', name: 'instances', value: BIG },
  template: { accountId: 'ann', name: 'ü', sealed: 'v1.', updatedAtMs: BIG },
  auditPending: { id: 1, record: '{}' },
  auditSubject: { subjectId: 'x', position: BIG },
  audit: {
    position: BIG,
    hash: '',
    atMs: BIG,
    accountId: '',
    username: '',
    credential: '',
    credentialId: '',
    address: '',
    userAgent: '',
    route: '',
    subjects: '[]',
    outcome: '',
    count: 1,
    requestId: '',
  },
  ...billingRows,
  signingKey: { kid: 'k', privateJwk: '{}', publicJwk: '{}', createdAtMs: BIG, retiredAtMs: null },
  account: {
    ...accountRow({ id: 'ann', email: 'ann@example.org' }),
    ...counted,
    disabledAtMs: BIG,
    disabledReason: 'ü',
    deleteAtMs: BIG,
    overdraftMicros: BIG,
    moneyStep: 'stop',
    moneyArchiveAtMs: BIG,
    moneyDeleteAtMs: BIG,
    moneyDeleteWarnedAtMs: BIG,
    secondFactors: '["totp"]',
  },
  webhook: {
    id: 'w',
    ownerId: 'ann',
    allAccounts: 0,
    url: '',
    kinds: '[]',
    secret: 'v1.',
    createdAtMs: BIG,
    enabled: 1,
    attempts: 2,
    failures: 1,
    nextAttemptAtMs: BIG,
    failingSinceMs: null,
    lastError: 'x',
  },
  webhookCursor: { webhookId: 'w', accountId: 'ann', seq: BIG },
  webhookDelivery: {
    id: 'd',
    webhookId: 'w',
    accountId: 'ann',
    seq: BIG,
    kind: '',
    atMs: BIG,
    attempts: 1,
    delivered: 1,
    status: 200,
    answer: '',
    tookMs: 1,
  },
  session: {
    id: 's',
    accountId: 'ann',
    createdAtMs: 1,
    expiresAtMs: BIG,
    revokedAtMs: null,
    address: '::1',
    userAgent: 'ü',
    lastUsedAtMs: BIG,
    secondFactor: 1,
    issuer: 'https://login.example',
    subject: 'ü',
    providerSid: 's',
  },
  totp: { accountId: 'ann', sealed: 'v1.', createdAtMs: BIG, confirmedAtMs: BIG, lastStep: BIG },
  recoveryCode: { hash: 'h', accountId: 'ann' },
  passkey: {
    id: 'p',
    accountId: 'ann',
    name: 'ü',
    credentialId: 'c',
    publicKey: 'k',
    counter: BIG,
    transports: '[]',
    createdAtMs: 1,
    lastUsedAtMs: null,
  },
  passwordLink: { hash: 'h', accountId: 'ann', kind: 'reset', expiresAtMs: BIG },
  apiKey: {
    id: 'a',
    accountId: 'ann',
    name: '',
    hash: 'h',
    prefix: 'berth_AbCd',
    lastFour: '1234',
    scopes: '["read"]',
    addresses: null,
    expiresAtMs: BIG,
    lastUsedAtMs: BIG,
    createdAtMs: 1,
  },
  identity: { issuer: 'https://login.example', subject: 's', accountId: 'ann', createdAtMs: BIG },
  sshKey: { id: 'k', accountId: 'ann', name: '', publicKey: '', kind: 'ca', fingerprint: '', createdAtMs: 1 },
  variable: { holderId: 'x', name: 'NAME', isSecret: 1, sealed: 'v1.', updatedAtMs: BIG },
  egress: { holderId: 'x', policy: '{}' },
  gpuUse: { accountId: 'ann', atMs: BIG, heldMs: BIG, measuredMs: 2, busyMs: 1 },
  regionUse: { regionId: 'here', atMs: BIG, resource: 'cpuMilli', total: BIG, promised: 1, used: null },
  quarantine: { id: 'x', regionId: 'here', cardId: 'ü', reason: '', evidence: '', sinceMs: BIG, isReturned: 1 },
  region: {
    ...regionRow({ id: 'here' }),
    cpuMilliUsed: 1,
    memoryMiBUsed: 2,
    gpusTotal: '{"L4":4}',
    gpusUsed: '{"L4":3}',
    reservePerGpu: '{"L4":{"cpuMilli":1,"memoryMiB":2}}',
    nodePortsUsed: 4,
    drain: null,
    formerNames: '[]',
    version: BIG,
    ownDomain: null,
    offPeak: null,
    storagePrices: '{}',
    settings: null,
    credentials: null,
    inCatalog: 1,
  },
  image: {
    id: 'i',
    name: '',
    ref: '',
    architecture: '',
    isPublic: 1,
    tags: '[]',
    type: '',
    createdAtMs: 1,
    inCatalog: 0,
    version: BIG,
    ownerId: null,
    state: 'Ready',
    stateText: '',
    fromInstanceId: null,
    regionId: null,
    sizeBytes: BIG,
    attempts: 0,
    generation: 1,
    operation: null,
    facts: '{"registryDigest":"","regions":{}}',
    ...lease,
  },
  instanceType: {
    id: 't',
    regionId: 'here',
    name: '',
    isSpot: 0,
    cpuCores: 0.25,
    cpuType: '',
    memoryGB: 1.5,
    gpuCount: 8,
    gpuName: '',
    rootDiskGB: 20,
    dataDiskGB: 0,
    placement: '{}',
    runtime: 'runsc',
    prices: '{}',
    inCatalog: 1,
    version: BIG,
    position: 3,
  },
  instance: {
    ...instanceRow(owned),
    ...lease,
    initExit: 137,
    releasedAtMs: BIG,
    waitsSinceMs: BIG,
    waitsUntilMs: null,
    notBeforeMs: BIG,
    windowEndsAtMs: BIG,
    reclaimAtMs: BIG,
    spotRegionId: 'here',
    stopPolicy: '{}',
    portAccess: '{}',
    wake: '{}',
    idleAfterMs: BIG,
    archive: null,
    rootDisk: 'kept',
    revision: 1,
    pending: '{}',
    oldContainer: null,
    unfinished: '[]',
    diskUsage: '{}',
    operation: '{}',
    labels: null,
    searchName: 'é',
    typeId: '',
    imageId: '',
  },
  label: { subjectId: 'i', key: 'k', value: '', ownerId: 'ann' },
  volume: {
    ...volumeRow(owned),
    ...lease,
    liveName: null,
    source: null,
    operation: '{}',
    labels: '{}',
    searchName: '',
  },
  snapshot: {
    id: 's',
    ownerId: 'ann',
    ownerName: 'Ann',
    createdAtMs: BIG,
    name: 'before',
    liveName: null,
    regionId: 'here',
    volumeId: 'x',
    volumeName: 'models',
    volumeType: 'filesystem',
    sizeGB: 20,
    consistency: 'atomic',
    status: 'Ready',
    generation: 1,
    operation: '{}',
    publicText: '{}',
    listed: 1,
    ...lease,
  },
  pool: {
    id: 'here/default',
    regionId: 'here',
    name: 'default',
    limitGB: 100,
    usedGB: 20,
    bestEffortGB: 40,
    warned: 0,
  },
  disk: {
    id: 'volume/x',
    kind: 'volume',
    subjectId: 'x',
    regionId: 'here',
    pool: 'default',
    ownerId: 'ann',
    sizeGB: 20,
    promisedGB: 20,
    bestEffortGB: 40,
    provisioned: 1,
    usageBytes: BIG,
    warnedPercent: 80,
  },
  nodePort: { regionId: 'here', nodePort: 30_000, instanceId: 'x', port: 22 },
  mount: { instanceId: 'x', volumeId: 'x', mountPath: '/data' },
  idempotency: { accountId: 'ann', key: 'k', route: '/r', bodyHash: 'h', answer: '{}', createdAtMs: 1 },
  event: { id: 9, accountId: 'ann', seq: 1, atMs: BIG, kind: 'k', subjectId: 'x', data: '{}' },
  webhookBacklog: {
    id: 'm',
    webhookId: 'w',
    accountId: 'ann',
    seq: 1,
    subjectId: 'x',
    refusals: BIG,
    dueAtMs: BIG,
    setAsideAtMs: BIG,
    status: 400,
    answer: '',
  },
  registryCredential: { id: 'r', accountId: 'ann', server: 's', username: 'u', secret: 'x', createdAtMs: BIG },
  operation: {
    id: 'x.1',
    accountId: 'ann',
    subjectId: 'x',
    generation: 1,
    kind: 'stop',
    archivedAtMs: BIG,
    operation: '{}',
  },
  orphan: {
    id: 's',
    regionId: 'here',
    kind: 'instance',
    engineName: 'n',
    subjectId: 'x',
    ownerId: 'ann',
    imageRef: 'r',
    handling: 'policy',
    note: '',
    generation: 1,
    createdAtMs: BIG,
    firstSeenAtMs: BIG,
    lastSeenAtMs: BIG,
    watchedMs: BIG,
    running: 1,
  },
  gatewayGrant: {
    hash: 'h',
    kind: 'session',
    accountId: 'ann',
    instanceId: 'x',
    sessionId: 's',
    apiKeyId: null,
    expiresAtMs: BIG,
    id: 'g',
    openedAtMs: BIG,
  },
  portShare: {
    id: 'p',
    hash: 'h',
    instanceId: 'x',
    accountId: 'ann',
    port: 8000,
    name: '',
    createdAtMs: BIG,
    expiresAtMs: BIG,
  },
};

onBothEngines('schema', { postgres: 'always' }, (open) => {
  test('every column of every table returns its stored value, numbers up to 53 bits', async () => {
    const store = await open();
    for (const [table, row] of Object.entries(rows)) {
      const names = sql.join(Object.keys(row).map((name) => sql.ref(name)));
      await store.write((tx) =>
        sql`insert into ${sql.table(table)} (${names}) values (${sql.join(Object.values(row))})`.execute(tx),
      );
      const { rows: stored } = await sql`select * from ${sql.table(table)}`.execute(store.read);
      // A Buffer compares unequal to a plain byte array.
      expect(stored.map(plain), table).toEqual([row]);
    }
  });

  test('sums and counts are numbers', async () => {
    const store = await open();
    await store.write((tx) =>
      tx
        .insertInto('account')
        .values([accountRow({ id: 'a', balanceMicros: 2 ** 52 }), accountRow({ id: 'b', balanceMicros: 5 })])
        .execute(),
    );
    const { total, count } = await store.read
      .selectFrom('account')
      .select(({ fn }) => [fn.sum<number>('balanceMicros').as('total'), fn.countAll<number>().as('count')])
      .executeTakeFirstOrThrow();
    expect([total, count]).toEqual([2 ** 52 + 5, 2]);
  });

  test('text is ordered by its bytes', async () => {
    const store = await open();
    const ids = ['a', 'B', 'Z', '_', 'ä', 'b', '1'];
    await store.write((tx) =>
      tx
        .insertInto('account')
        .values(ids.map((id) => accountRow({ id })))
        .execute(),
    );
    const sorted = await store.read.selectFrom('account').select('id').orderBy('id').execute();
    expect(sorted.map(({ id }) => id)).toEqual(['1', 'B', 'Z', '_', 'a', 'b', 'ä']);
  });

  test('unique indexes refuse duplicates', async () => {
    const store = await open();
    await store.write((tx) =>
      tx
        .insertInto('region')
        .values(regionRow({ id: 'here' }))
        .execute(),
    );
    await store.write((tx) =>
      tx
        .insertInto('account')
        .values([accountRow({ id: 'a' }), accountRow({ id: 'b' })])
        .execute(),
    );
    await store.write((tx) =>
      tx
        .insertInto('instance')
        .values(instanceRow({ ...owned, ownerId: 'a' }))
        .execute(),
    );
    await store.write((tx) =>
      tx
        .insertInto('instance')
        .values(instanceRow({ ...owned, ownerId: 'a', id: 'y' }))
        .execute(),
    );
    const volume = { ...owned, ownerId: 'a', liveName: 'a/data' };
    const twice = [
      { username: [accountRow({ id: 'c', username: 'same' }), accountRow({ id: 'd', username: 'same' })] },
      { email: [accountRow({ id: 'c', email: 'e' }), accountRow({ id: 'd', email: 'e' })] },
    ];
    for (const accounts of twice) {
      await expect(
        store.write((tx) => tx.insertInto('account').values(Object.values(accounts).flat()).execute()),
      ).rejects.toThrow(/unique/i);
    }
    await store.write((tx) => tx.insertInto('volume').values(volumeRow(volume)).execute());
    await expect(
      store.write((tx) =>
        tx
          .insertInto('volume')
          .values(volumeRow({ ...volume, id: 'y' }))
          .execute(),
      ),
    ).rejects.toThrow(/unique/i);
    await store.write((tx) => tx.updateTable('volume').set({ liveName: null }).execute());
    await store.write((tx) =>
      tx
        .insertInto('volume')
        .values(volumeRow({ ...volume, id: 'y', liveName: null }))
        .execute(),
    );
    const port = { regionId: 'here', nodePort: 30_000, instanceId: 'x', port: 22 };
    await store.write((tx) => tx.insertInto('nodePort').values(port).execute());
    await expect(
      store.write((tx) =>
        tx
          .insertInto('nodePort')
          .values({ ...port, instanceId: 'y' })
          .execute(),
      ),
    ).rejects.toThrow(/unique/i);
  });

  test('deletes children with their parent, and refuses to delete a needed parent', async () => {
    const store = await open();
    await store.write(async (tx) => {
      await tx
        .insertInto('region')
        .values(regionRow({ id: 'here' }))
        .execute();
      await tx
        .insertInto('account')
        .values(accountRow({ id: 'ann' }))
        .execute();
      await tx.insertInto('session').values(rows.session).execute();
      await tx.insertInto('gatewayGrant').values(rows.gatewayGrant).execute();
      await tx.insertInto('instance').values(instanceRow(owned)).execute();
      await tx.insertInto('volume').values(volumeRow(owned)).execute();
      await tx.insertInto('nodePort').values(rows.nodePort).execute();
      await tx.insertInto('mount').values(rows.mount).execute();
    });
    await expect(store.write((tx) => tx.deleteFrom('region').execute())).rejects.toThrow(/foreign key/i);
    await expect(store.write((tx) => tx.deleteFrom('account').execute())).rejects.toThrow(/foreign key/i);
    await store.write((tx) => tx.deleteFrom('instance').execute());
    await store.write((tx) => tx.deleteFrom('session').execute());
    for (const table of ['nodePort', 'mount', 'gatewayGrant'] as const) {
      expect(await store.read.selectFrom(table).selectAll().execute(), table).toEqual([]);
    }
  });
});
