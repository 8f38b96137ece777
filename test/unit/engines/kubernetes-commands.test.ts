/** Commands in a Pod, against a stand-in for the API server. */
import { expect, test } from 'vitest';
import { instanceIdOf } from '../../../src/domain/kernel/ids.ts';
import { makeKubernetesEngine } from '../../../src/engines/kubernetes/kubernetes.ts';
import { deadline } from '../../conformance/subject.ts';
import { startApiServer } from '../../fixtures/api-server.ts';

const id = instanceIdOf('44444444-4444-4444-8444-444444444444');
const labels = { 'berth.installation': 'i-1', 'berth.kind': 'instance', 'berth.id': id };
const status = { name: 'main', restartCount: 0, state: { running: { startedAt: '2026-01-01T00:00:00Z' } } };
const pod = { metadata: { name: `${id}-0`, uid: 'u', labels }, status: { containerStatuses: [status] } };

test('values of variables are sent to a command as input, and are in no URL, which servers log', async () => {
  const urls: string[] = [];
  const input: string[] = [];
  const { cluster } = await startApiServer({
    answer: () => ({ body: pod }),
    onSocket: (socket, { query }) => {
      urls.push(query.toString());
      socket.on('message', (data: Buffer) => {
        if (data[0] === 0) input.push(data.subarray(1).toString());
      });
      // The process id of the command, on the channel of its errors.
      socket.send(Buffer.from('\x02\x0142\x02'));
    },
  });
  const engine = makeKubernetesEngine({
    cluster,
    installation: 'i-1',
    settings: {
      login: 'inCluster',
      namespace: 'berth',
      reach: 'podAddress',
      networkPolicies: true,
      userNamespaces: false,
    },
    log: { debug: () => {} },
  });
  const request = { command: ['printenv', 'KEY'], env: { KEY: 'swordfish' }, terminal: null };
  const { stdin } = await engine.openExec(id, request, deadline());
  stdin.write('of the owner');
  await expect.poll(() => input.join('')).toBe('KEY=swordfish\n\nof the owner');
  expect(urls).toHaveLength(1);
  expect(urls[0]).toContain('printenv');
  expect(urls[0]).not.toContain('swordfish');
  await engine.stop();
});
