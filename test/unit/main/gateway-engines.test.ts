/** Engines of the gateway process follow the regions that the API names. */
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import type { RegionToOpen } from '../../../src/control/index.ts';
import { instanceId, regionId } from '../../../src/domain/kernel/ids.ts';
import { makeGatewayEngines } from '../../../src/main/gateway-engines.ts';

const OWN = 'own';
const idOf = (digit: string) => instanceId(`notebook-0000000${digit}-0000-4000-8000-000000000000`);
const ids = { own: idOf('1'), added: idOf('2'), lost: idOf('3') };
const regionOf: Record<string, string> = { [ids.own]: OWN, [ids.added]: 'added', [ids.lost]: 'lost' };

const region = (id: string, secret: string): RegionToOpen => ({
  id: regionId(id),
  address: '192.0.2.9',
  settings: { pools: [], nodePorts: { first: 1, last: 2 } },
  secret,
});

/** Engines that name themselves in `exec`. */
function harness() {
  const stopped: string[] = [];
  const opened: string[] = [];
  const said: string[] = [];
  const engine = (name: string) => ({
    exec: async () => ({ exitCode: 0, stdout: name, stderr: '' }),
    dial: async () => new PassThrough(),
    openExec: () => Promise.reject(new Error('not called')),
    joinNetwork: () => Promise.reject(new Error('not called')),
    listenUnix: () => Promise.reject(new Error('not called')),
    stop: async () => void stopped.push(name),
  });
  const record = (facts: Record<string, unknown>): void => void said.push(JSON.stringify(facts));
  const engines = makeGatewayEngines({
    own: { regionId: OWN, engine: engine(OWN) },
    async openEngine({ id, secret }) {
      opened.push(`${id} ${secret}`);
      if (secret === 'bad') throw new Error('the token is not one', { cause: secret });
      return engine(`${id} ${secret}`);
    },
    regionOf: async (id) => regionOf[id] ?? null,
    log: { info: record, error: record },
  });
  const nameOf = async (id: string) =>
    (await engines.exec(instanceId(id), ['true'], AbortSignal.timeout(1_000))).stdout;
  return { engines, nameOf, stopped, opened, said };
}

test('each instance is reached by the engine of its region', async () => {
  const { engines, nameOf, stopped } = harness();
  expect(await nameOf(ids.own)).toBe(OWN);
  await expect(nameOf(ids.added)).rejects.toMatchObject({ kind: 'unreachable', retry: true });
  engines.apply([region('added', 'one')]);
  expect(await nameOf(ids.added)).toBe('added one');
  expect(await nameOf(ids.own)).toBe(OWN);
  await expect(nameOf(idOf('4'))).rejects.toMatchObject({ kind: 'not_found' });
  await engines.stop();
  expect(stopped.toSorted()).toEqual(['added one', OWN]);
});

test('an unchanged region stays open, and a changed one is replaced once', async () => {
  const { engines, nameOf, stopped, opened } = harness();
  engines.apply([region('added', 'one')]);
  // As after a restart of the API: the same facts, and a region less that it could not open.
  engines.apply([structuredClone(region('added', 'one'))]);
  engines.apply([]);
  expect(await nameOf(ids.added)).toBe('added one');
  expect({ opened, stopped }).toEqual({ opened: ['added one'], stopped: [] });
  engines.apply([region('added', 'two')]);
  engines.apply([region('added', 'three')]);
  expect(await nameOf(ids.added)).toBe('added three');
  expect(stopped).toEqual(['added one', 'added two']);
});

test('a region that cannot be opened keeps its engine before, and the log has no credentials', async () => {
  const { engines, nameOf, said } = harness();
  engines.apply([region('added', 'one'), region('lost', 'bad')]);
  engines.apply([region('added', 'bad'), region('lost', 'bad')]);
  expect(await nameOf(ids.added)).toBe('added one');
  await expect(nameOf(ids.lost)).rejects.toThrow('the gateway process cannot open region lost; its log says why');
  expect(said.join('\n')).toContain('the token is not one');
  expect(said.join('\n')).not.toContain('bad');
});
