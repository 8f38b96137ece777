/** Pods of downloads whose server was lost, against a stand-in for the API server. */
import { afterEach, expect, test, vi } from 'vitest';
import { makeKubernetesEngine } from '../../../src/engines/kubernetes/kubernetes.ts';
import { startApiServer } from '../../fixtures/api-server.ts';

afterEach(() => vi.useRealTimers());

test.for([-86_400, -60, 60, 86_400])(
  'are removed an hour after they are first seen, by a cluster whose clock is %i s off',
  async (skewSeconds) => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const labels = { 'berth.installation': 'ours', 'berth.kind': 'pull', 'berth.id': 'old' };
    const creationTimestamp = new Date(Date.now() + 1_000 * skewSeconds).toISOString();
    const { cluster, calls } = await startApiServer({
      answer: ({ path, query }) =>
        query.get('watch') === null && path.endsWith('/pods')
          ? { body: { items: [{ metadata: { name: 'old', uid: 'u-1', labels, creationTimestamp } }], metadata: {} } }
          : { body: { items: [], metadata: {} } },
    });
    const engine = makeKubernetesEngine({
      cluster,
      installation: 'ours',
      settings: {
        login: 'inCluster',
        namespace: 'berth',
        reach: 'podAddress',
        networkPolicies: true,
        userNamespaces: false,
      },
      log: { debug() {} },
    });
    const removed = (): number =>
      calls.filter(({ method, path }) => method === 'DELETE' && path.endsWith('/pods/old')).length;
    const list = async (): Promise<void> => void (await engine.listOwned(AbortSignal.timeout(30_000)));
    await list();
    vi.advanceTimersByTime(3_599_000);
    await list();
    expect(removed(), 'its server may still use it').toBe(0);
    vi.advanceTimersByTime(2_000);
    await list();
    expect(removed()).toBe(1);
    await engine.stop();
  },
);
