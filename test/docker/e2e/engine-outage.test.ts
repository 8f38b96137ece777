/**
 * The engine goes away during launches, and later ends all containers: each instance runs
 * again, in one container.
 */
import { DatabaseSync } from 'node:sqlite';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { atLevel } from '../../fixtures/level.ts';
import { labels } from '../../../src/engines/labels.ts';
import { readRecipe, recipeRef } from '../../../src/engines/docker/image/recipes.ts';
import { firstLaunchRequest } from '../../fixtures/first-launch.ts';
import { startOwnEngine, type OwnEngine } from './test-engine.ts';
import {
  installationOf,
  login,
  startServerProcess,
  statusesOf,
  until,
  type Client,
  type ServerProcess,
} from '../../fixtures/server-process.ts';

const OUTAGE_MS = atLevel({ short: 3_000, long: 10_000, soak: 60_000 });
const LAUNCHES = atLevel({ short: 6, long: 20 });
const MOST_RESTARTS = 4;
const SETTLE_DEADLINE_MS = 120_000;
const pager = { currentPage: 1, pageSize: 500 };

let engine: OwnEngine;
let server: ServerProcess;
let client: Client;
// Before each try: a second one finds nothing of the first.
beforeEach(async () => {
  engine = await startOwnEngine();
  // Imports a tiny image under the default image's name, so that nothing is built.
  await engine.importTiny(recipeRef(await readRecipe(join(import.meta.dirname, '../../../images/notebook'))));
  server = await startServerProcess({ nodePorts: '31300-31399', settings: { DOCKER_HOST: engine.dockerHost } });
  ({ client } = await login(server));
});
afterEach(async () => {
  await server?.stop();
  await engine?.stop();
});

/** Instances of the smallest type together need more memory than some machines have. */
function shrinkTypes(): void {
  const database = new DatabaseSync(join(server.folder, 'berth.db'));
  database.exec('pragma busy_timeout = 5000');
  database.exec('update "instanceType" set "memoryGB" = 0.0625');
  database.close();
}

const launch = async (number: number): Promise<string> =>
  (await client.launch(await firstLaunchRequest(client, { name: `outage ${number}` }))).instanceId;

const states = async () =>
  (await client.listInstances({ pager })).instances.map(({ instanceMetadata, instanceRuntimeInfo: now }) => ({
    id: instanceMetadata.instanceId,
    status: now.status,
    phase: now.phase,
    diagnosisReason: now.diagnosisReason,
    diagnosisMessage: now.diagnosisMessage,
  }));

/** Instances that are not yet as requested. */
const unsettled = async () =>
  (await states()).filter(({ status, diagnosisReason }) => status !== 'Running' || diagnosisReason !== '');

const isEmpty = (all: unknown[]): boolean => all.length === 0;

/** All containers of the installation, with their instances. */
async function containers(): Promise<{ of: string; container: string; state: string }[]> {
  const filters = { label: [`${labels.installation}=${installationOf(server.folder)}`, `${labels.kind}=instance`] };
  const found = await engine.docker.listContainers({ all: true, filters });
  return found
    .map(({ Id, State, Labels }) => ({ of: Labels[labels.id] ?? '', container: Id, state: State }))
    .sort((a, b) => a.of.localeCompare(b.of));
}

const restarted = async () => ({ unsettled: await unsettled(), containers: await containers() });
type Restarted = Awaited<ReturnType<typeof restarted>>;

/**
 * Docker can lose count of free ports when it ends (`portTakenText`): those instances wait and name
 * the operator's fix.
 */
const areAllLostCountOf = (now: Restarted): boolean =>
  now.unsettled.length > 0 && now.unsettled.every(({ diagnosisMessage: said }) => /its restart frees it/.test(said));

test(`an outage of ${OUTAGE_MS / 1000} s during ${LAUNCHES} launches fails none, and containers ended by the engine are started again`, async () => {
  await until(
    async () => {
      shrinkTypes();
      return (await client.catalog()).instanceInfos[0]?.regionInfos[0]?.instanceTypeInfos[0]?.memoryGB;
    },
    (memoryGB) => memoryGB === 0.0625,
  );
  const ids = await Promise.all(Array.from({ length: LAUNCHES }, (_, number) => launch(number)));
  await until(containers, (all) => all.some(({ state }) => state === 'running'));
  await engine.kill('SIGKILL');
  const goneAtMs = Date.now();
  expect(await unsettled()).not.toEqual([]);
  const reasons = new Set<string>();
  while (Date.now() - goneAtMs < OUTAGE_MS) {
    for (const { status, diagnosisReason } of await states()) {
      expect(status).not.toMatch(/Failed/);
      reasons.add(diagnosisReason);
    }
    await sleep(200);
  }
  expect([...reasons]).toContain('EngineUnreachable');
  expect([...reasons].filter((reason) => reason !== '' && reason !== 'EngineUnreachable')).toEqual([]);
  await engine.start();
  await until(unsettled, isEmpty, SETTLE_DEADLINE_MS);
  const settled = await containers();
  expect(settled.map(({ of, state }) => ({ of, state }))).toEqual(
    ids.toSorted((a, b) => a.localeCompare(b)).map((of) => ({ of, state: 'running' })),
  );
  for (const id of ids) expect(statusesOf(server.folder, id).filter((status) => status.includes('Failed'))).toEqual([]);

  // The same containers, started again.
  const same = JSON.stringify({ unsettled: [], containers: settled });
  const isSame = (now: Restarted): boolean => JSON.stringify(now) === same;
  for (let restarts = 1; ; restarts += 1) {
    await engine.kill('SIGTERM');
    await engine.start();
    const now = await until(restarted, (seen) => isSame(seen) || areAllLostCountOf(seen), SETTLE_DEADLINE_MS);
    if (isSame(now)) break;
    expect(restarts, 'the engine lost count of node ports at each restart').toBeLessThan(MOST_RESTARTS);
  }
  for (const id of ids) expect(statusesOf(server.folder, id).filter((status) => status.includes('Failed'))).toEqual([]);
  expect(await client.listStrays()).toEqual({ strays: [] });
}, 600_000);
