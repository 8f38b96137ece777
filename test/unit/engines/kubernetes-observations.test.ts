/** Observations of many instances take few calls, against a stand-in for the API server. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { instanceIdOf } from '../../../src/domain/kernel/ids.ts';
import { makeObserve } from '../../../src/engines/kubernetes/instance-observations.ts';
import { instanceSelector, objectName } from '../../../src/engines/kubernetes/manifests/object-names.ts';
import { deadline, until } from '../../conformance/subject.ts';
import { refusal, startApiServer } from '../../fixtures/api-server.ts';

const installation = 'i-1';
const ids = Array.from({ length: 100 }, () => instanceIdOf(randomUUID()));
const sets = ids.map((id) => ({
  metadata: { name: objectName(id), labels: instanceSelector(installation, id) },
  spec: { replicas: 0, template: { spec: { containers: [] } } },
}));

async function makeScene() {
  const gate = { opened: Promise.resolve() };
  const server = await startApiServer({
    async answer({ path }) {
      await gate.opened;
      const name = path.split('/').at(-1) ?? '';
      if (name === 'statefulsets' || name === 'pods')
        return { body: { metadata: { resourceVersion: '1' }, items: name === 'pods' ? [] : sets } };
      const found = path.includes('/statefulsets/') && sets.find(({ metadata }) => metadata.name === name);
      return found ? { body: found } : refusal(404, 'NotFound', `${name} not found`);
    },
  });
  const observe = makeObserve({
    cluster: server.cluster,
    installation,
    pods: { evictionOf: async () => null },
    stopping: new AbortController().signal,
  });
  /** Calls of lists, and calls by name, since the last question. */
  const counted = () => {
    const all = server.calls.splice(0).map(({ path }) => path.split('/').at(-1) ?? '');
    const lists = all.filter((name) => name === 'statefulsets' || name === 'pods').length;
    return { lists, byName: all.length - lists };
  };
  return { observe, gate, server, counted };
}

test('many instances are read by two lists, and a tenth of those known by name', async () => {
  const { observe, counted } = await makeScene();
  const all = await observe(ids, deadline());
  expect(new Set([...all.values()].map(({ kind }) => kind))).toEqual(new Set(['present']));
  expect(counted()).toEqual({ lists: 2, byName: 0 });
  await observe(ids.slice(0, 10), deadline());
  expect(counted()).toEqual({ lists: 0, byName: 20 });
  await observe(ids.slice(0, 11), deadline());
  expect(counted()).toEqual({ lists: 2, byName: 0 });
});

test('callers that come during a read share the next one', async () => {
  const { observe, gate, server, counted } = await makeScene();
  const opened = Promise.withResolvers<void>();
  gate.opened = opened.promise;
  const first = observe(ids, deadline());
  await until('two lists are asked for', async () => server.calls.length === 2);
  const later = ids.map((id) => observe([id], deadline()));
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(counted()).toEqual({ lists: 2, byName: 0 });
  opened.resolve();
  await first;
  expect((await Promise.all(later)).every((answer) => answer.size === 1)).toBe(true);
  expect(counted()).toEqual({ lists: 2, byName: 0 });
});
