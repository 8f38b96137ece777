import { expect, test } from 'vitest';
import type { GatewayRoute } from '../../../src/control/index.ts';
import type { RevocationSubject } from '../../../src/control/access/routing/gateway-types.ts';
import { Revocation, type OpenAccess } from '../../../src/edge/gateway/revocation.ts';
import { ALICE, API_ORIGIN, idOf, onCleanup, until } from './harness.ts';

const ids = ['1', '2', '3', '4', '5'].map(idOf);

const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const routeOf = (instanceId: GatewayRoute['instanceId']): GatewayRoute => ({
  instanceId,
  regionId: 'own',
  ownerId: ALICE,
  access: new Map([[80, 'public']]),
  nodePorts: new Map(),
  running: true,
  sshFront: false,
  notebook: null,
  wake: 'off',
  status: 'Running',
  notebookToken: '',
});

const liveAt = (instanceId: GatewayRoute['instanceId'], cut: string[]): OpenAccess => ({
  portAddress: { instanceId, port: 80, mount: 'forward' },
  accessGrant: { kind: 'public' },
  cut: () => void cut.push(instanceId),
  at: -1,
});

test('cuts every open connection at a revocation, in any order of earlier connects and disconnects', async () => {
  const gone = new Set<string>();
  const route = async (instanceId: GatewayRoute['instanceId']): Promise<GatewayRoute | null> =>
    gone.has(instanceId) ? null : routeOf(instanceId);
  const revocation = new Revocation(
    {
      forwarding: { route, session: async () => null, share: async () => null },
      authenticate: async () => ({ accountId: ALICE, scopes: null }),
      apiUrl: API_ORIGIN,
      onRevoked: () => () => {},
      log,
    },
    5,
  );
  onCleanup(async () => revocation.stop());
  const cut: string[] = [];
  const lives = ids.map((id) => liveAt(id, cut));
  for (const live of lives) revocation.watch(live);
  const done = (index: number): void => {
    const live = lives[index];
    if (live) revocation.done(live);
  };
  done(1);
  done(1);
  done(0);
  for (const id of ids) gone.add(id);
  await until('three connections are cut', () => new Set(cut).size === 3);
  expect([...new Set(cut)].toSorted()).toEqual(ids.slice(2).toSorted());
});

test('checks the other holders when one check fails, with one warning', async () => {
  const [first, second, third] = ids;
  const warnings: object[] = [];
  let tell = (_ended: RevocationSubject): void => {};
  const revocation = new Revocation(
    {
      forwarding: {
        route: async (id) => {
          if (id === first || id === second) throw new Error('not now');
          return null;
        },
        session: async () => null,
        share: async () => null,
      },
      authenticate: async () => ({ accountId: ALICE, scopes: null }),
      apiUrl: API_ORIGIN,
      onRevoked: (look) => {
        tell = look;
        return () => {};
      },
      log: { ...log, warn: (facts) => void warnings.push(facts) },
    },
    3_600_000,
  );
  onCleanup(async () => revocation.stop());
  const cut: string[] = [];
  for (const id of ids) revocation.watch(liveAt(id, cut));
  for (const id of [first, second, third]) if (id !== undefined) tell({ instanceId: id });
  await until('the third connection is cut', () => cut.length > 0);
  expect(cut).toEqual([third]);
  // The first is checked alone, the others together.
  await until('each round has logged a warning', () => warnings.length === 2);
  expect(warnings).toEqual([
    { err: expect.any(Error), connections: 1 },
    { err: expect.any(Error), connections: 1 },
  ]);
});
