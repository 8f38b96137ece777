import { expect, test } from 'vitest';
import type { GatewayRoute } from '../../src/control/control.ts';
import { Revocation, type Live } from '../../src/edge/gateway/revocation.ts';
import { targetOf } from '../../src/edge/gateway/routing.ts';
import { ALICE, API_ORIGIN, idOf, onCleanup, until } from './harness.ts';

const ids = ['1', '2', '3', '4', '5'].map(idOf);

test('whoever is still there when access ends is cut, in whatever order others came and went', async () => {
  const gone = new Set<string>();
  const route = async (instanceId: GatewayRoute['instanceId']): Promise<GatewayRoute | null> =>
    gone.has(instanceId)
      ? null
      : {
          instanceId,
          ownerId: ALICE,
          access: new Map([[80, 'public']]),
          running: true,
          sshFront: false,
          status: 'Running',
          notebookToken: '',
        };
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const revocation = new Revocation(
    {
      forwarding: { route, session: async () => null, share: async () => null },
      authenticate: async () => ({ accountId: ALICE }),
      apiOrigin: () => API_ORIGIN,
      onEnded: () => () => {},
      log,
    },
    5,
  );
  onCleanup(async () => revocation.stop());
  const cut: string[] = [];
  const lives = ids.map((id): Live => {
    const target = targetOf('h', `/forward/${id}/80/`, null);
    if (target.kind !== 'instance') throw new Error('not an address of an instance');
    return { target, evidence: { kind: 'public' }, cut: () => void cut.push(id), at: -1 };
  });
  for (const live of lives) revocation.watch(live);
  const done = (index: number): void => {
    const live = lives[index];
    if (live) revocation.done(live);
  };
  done(1);
  done(1);
  done(0);
  for (const id of ids) gone.add(id);
  await until('three are cut', () => new Set(cut).size === 3);
  expect([...new Set(cut)].toSorted()).toEqual(ids.slice(2).toSorted());
});
