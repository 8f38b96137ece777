/** Requests of the client, against a stand-in for the API server. */
import { describe, expect, test } from 'vitest';
import { ApiError } from '../../../src/kubernetes/api-error.ts';
import { resources } from '../../../src/kubernetes/api-resources.ts';
import { connectCluster } from '../../../src/kubernetes/cluster-connection.ts';
import { refusal, startApiServer } from '../../fixtures/api-server.ts';

const deadline = (): AbortSignal => AbortSignal.timeout(10_000);
const pod = (name: string) => ({ metadata: { name, resourceVersion: '1' } });

const failureOf = async (call: Promise<unknown>): Promise<ApiError> => {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof ApiError) return error;
  return expect.fail(`should have thrown an ApiError, got ${String(error)}`);
};

describe('apply', () => {
  test('sends a server-side apply by our field manager, with type and precondition', async () => {
    const { cluster, calls } = await startApiServer({ answer: ({ body }) => ({ body }) });
    const spec = { replicas: 1, serviceName: 'a', selector: {}, template: {} };
    const applied = await cluster.apply(
      resources.statefulSets,
      { metadata: { name: 'a', uid: 'u-1' }, spec },
      deadline(),
    );
    expect(calls).toHaveLength(1);
    expect(calls[0]).toMatchObject({
      method: 'PATCH',
      path: '/apis/apps/v1/namespaces/berth/statefulsets/a',
      body: { apiVersion: 'apps/v1', kind: 'StatefulSet', metadata: { name: 'a', uid: 'u-1' }, spec },
    });
    expect(Object.fromEntries(calls[0]?.query ?? [])).toEqual({ fieldManager: 'berth', force: 'true' });
    expect(calls[0]?.headers).toMatchObject({
      'content-type': 'application/apply-patch+yaml',
      authorization: 'Bearer secret',
      'user-agent': 'berth',
    });
    expect(applied.metadata?.uid).toBe('u-1');
  });
});

describe('get', () => {
  test('is null for an absent object, and throws what else is wrong', async () => {
    const { cluster } = await startApiServer({
      answer: ({ path }) =>
        path.endsWith('/there')
          ? { body: pod('there') }
          : path.endsWith('/gone')
            ? refusal(404, 'NotFound', 'gone')
            : refusal(500, 'InternalError', 'ill'),
    });
    expect(await cluster.get(resources.pods, 'there', deadline())).toEqual(pod('there'));
    expect(await cluster.get(resources.pods, 'gone', deadline())).toBeNull();
    expect(await failureOf(cluster.get(resources.pods, 'ill', deadline()))).toMatchObject({
      failure: 'unavailable',
      message: 'ill',
    });
  });

  test('escapes names, and asks for cluster-wide kinds outside of the namespace', async () => {
    const { cluster, calls } = await startApiServer({ answer: () => ({ body: {} }) });
    await cluster.get(resources.pods, '../x', deadline());
    await cluster.get(resources.nodes, 'n', deadline());
    expect(calls.map(({ path }) => path)).toEqual(['/api/v1/namespaces/berth/pods/..%2Fx', '/api/v1/nodes/n']);
  });
});

describe('list', () => {
  test('follows pages to the end', async () => {
    const { cluster, calls } = await startApiServer({
      answer: ({ query }) => {
        const page = Number(query.get('continue') ?? 0);
        return { body: { metadata: page < 2 ? { continue: String(page + 1) } : {}, items: [pod(`p${page}`)] } };
      },
    });
    const found = await cluster.list(resources.pods, deadline(), { labelSelector: 'a=b', fieldSelector: 'c=d' });
    expect(found.map(({ metadata }) => metadata?.name)).toEqual(['p0', 'p1', 'p2']);
    for (const { query } of calls)
      expect(query.toString()).toContain('limit=500&labelSelector=a%3Db&fieldSelector=c%3Dd');
  });

  test('begins again when its version expires between pages', async () => {
    let expired = false;
    const { cluster, calls } = await startApiServer({
      answer: ({ query }) => {
        if (query.get('continue') === null)
          return { body: { metadata: { continue: 'next' }, items: [pod(expired ? 'new' : 'old')] } };
        if (expired) return { body: { items: [pod('last')] } };
        expired = true;
        return refusal(410, 'Expired', 'The provided continue parameter is too old');
      },
    });
    const found = await cluster.list(resources.pods, deadline());
    expect(found.map(({ metadata }) => metadata?.name)).toEqual(['new', 'last']);
    expect(calls).toHaveLength(4);
  });

  test('fails in the end when every version expires', async () => {
    const { cluster, calls } = await startApiServer({ answer: () => refusal(410, 'Expired', 'too old') });
    expect(await failureOf(cluster.list(resources.pods, deadline()))).toMatchObject({ failure: 'expired' });
    expect(calls).toHaveLength(4);
  });
});

describe('remove', () => {
  test('sends preconditions and grace; absent is false', async () => {
    const { cluster, calls } = await startApiServer({
      answer: ({ path }) => (path.endsWith('/gone') ? refusal(404, 'NotFound', 'gone') : { body: {} }),
    });
    const options = { uid: 'u', graceSeconds: 3 } as const;
    expect(await cluster.remove(resources.pods, 'a', deadline(), options)).toBe(true);
    expect(calls[0]).toMatchObject({
      method: 'DELETE',
      body: {
        propagationPolicy: 'Background',
        gracePeriodSeconds: 3,
        preconditions: { uid: 'u' },
      },
    });
    expect(await cluster.remove(resources.pods, 'gone', deadline())).toBe(false);
  });
});

describe('a server under load', () => {
  test('is asked again after the pause that it asks for', async () => {
    let refused = 0;
    const { cluster } = await startApiServer({
      answer: () =>
        refused++ < 2
          ? { ...refusal(429, 'TooManyRequests', 'later'), headers: { 'retry-after': '0' } }
          : { body: pod('a') },
    });
    expect(await cluster.get(resources.pods, 'a', deadline())).toEqual(pod('a'));
    expect(refused).toBe(3);
  });

  test('is not awaited for a long pause', async () => {
    const { cluster, calls } = await startApiServer({
      answer: () => ({ ...refusal(429, 'TooManyRequests', 'later'), headers: { 'retry-after': '60' } }),
    });
    expect(await failureOf(cluster.get(resources.pods, 'a', deadline()))).toMatchObject({
      failure: 'throttled',
      retryAfterMs: 60_000,
    });
    expect(calls).toHaveLength(1);
  });
});

describe('connections', () => {
  test('are kept for the next call', async () => {
    const { cluster, connections } = await startApiServer({ answer: () => ({ body: pod('a') }) });
    for (let call = 0; call < 5; call++) await cluster.get(resources.pods, 'a', deadline());
    expect(await connections()).toBe(1);
  });

  test('closed while idle are replaced without an error', async () => {
    const { cluster } = await startApiServer({
      answer(_call, response) {
        response.writeHead(200, { 'content-type': 'application/json', 'keep-alive': 'timeout=60' });
        response.end('{}', () => response.socket?.destroy());
      },
    });
    for (let call = 0; call < 20; call++) expect(await cluster.get(resources.pods, 'a', deadline())).toEqual({});
  });

  test('an abort ends the call with its reason', async () => {
    const { cluster } = await startApiServer({ answer: () => {} });
    await expect(cluster.get(resources.pods, 'a', AbortSignal.timeout(50))).rejects.toMatchObject({
      name: 'TimeoutError',
    });
    await expect(cluster.get(resources.pods, 'a', AbortSignal.abort())).rejects.toMatchObject({ name: 'AbortError' });
  });

  test('a closed client answers nothing', async () => {
    const { cluster } = await startApiServer({ answer: () => {} });
    const call = failureOf(cluster.get(resources.pods, 'a', deadline()));
    cluster.stop();
    expect((await call).failure).toBe('away');
  });
});

describe('credentials', () => {
  const kubeconfig = (user: object, cluster: object = {}): string =>
    JSON.stringify({
      'current-context': 'here',
      contexts: [{ name: 'here', context: { cluster: 'c', user: 'u', namespace: 'mine' } }],
      clusters: [{ name: 'c', cluster: { server: 'https://cluster:6443', ...cluster } }],
      users: [{ name: 'u', user }],
    });
  const connect = (text: string) => connectCluster({ kind: 'kubeconfig', text });

  test('give address and token of a kubeconfig', async () => {
    const connection = await connect(kubeconfig({ token: 'abc' }));
    expect(connection.server.href).toBe('https://cluster:6443/');
    expect((await connection.options()).headers).toMatchObject({ Authorization: 'Bearer abc' });
    connection.stop();
  });

  test.for([
    {
      what: 'a program',
      text: kubeconfig({ exec: { command: 'aws', apiVersion: 'client.authentication.k8s.io/v1' } }),
      says: /runs a program/,
    },
    { what: 'a file of a key', text: kubeconfig({ 'client-key': '/root/.ssh/id' }), says: /names files/ },
    {
      what: 'a file of an authority',
      text: kubeconfig({ token: 'x' }, { 'certificate-authority': '/etc/shadow' }),
      says: /names files/,
    },
    {
      what: 'a file of a token, as the library names it',
      text: kubeconfig({ 'token-file': import.meta.filename }),
      says: /names a file with its token; write the token itself/,
    },
    {
      what: 'a file of a token, as Kubernetes names it',
      text: kubeconfig({ tokenFile: '/nowhere' }),
      says: /names a file with its token/,
    },
    {
      what: 'a file of a token under an escaped name',
      text: kubeconfig({ 'token-file': import.meta.filename }).replace('token-file', 'token\\x2dfile'),
      says: /names a file with its token/,
    },
    { what: 'no YAML', text: '{', says: /is not valid/ },
    {
      what: 'a context that is not there',
      text: kubeconfig({ token: 'x' }).replace('"here","contexts"', '"there","contexts"'),
      says: /has no context "there"; it has here/,
    },
  ])('refuse a kubeconfig with $what', async ({ text, says }) => {
    await expect(connect(text)).rejects.toThrow(says);
  });

  test('refuse an address that is none, and a cluster that Berth is not in', async () => {
    await expect(connectCluster({ kind: 'token', apiUrl: 'cluster:6443', token: 'x' })).rejects.toThrow(
      /https:\/\/host:6443/,
    );
    await expect(connectCluster({ kind: 'inCluster' })).rejects.toThrow(/does not run in a cluster/);
  });
});
