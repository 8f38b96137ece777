/**
 * schemathesis, a fuzzer that reads the API document, with all its checks against a real server on
 * the simulated engine. docs/testing.md explains each failure that is expected, by name.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { exampleIds } from '../../../src/contract/examples.ts';
import { firstLaunchRequest, running } from '../../fixtures/first-launch.ts';
import { login, startServerProcess, type ServerProcess } from '../../fixtures/server-process.ts';

const run = promisify(execFile);
const FUZZER = 'schemathesis==4.32.5';
/** Reached by failures only. */
const DEADLINE_MS = 1_800_000;
const MAX_EXAMPLES = 12;
const IDEMPOTENCY_KEY = '#/components/parameters/IdempotencyKey';

interface Failure {
  check: string;
  /** Operation; status and code of the answer, and the body of a refusal; body of the request. */
  exchange: string;
}

/** Failures that are expected: of that check or `any`, with one of these parts in the exchange. */
interface Explanation {
  check: string;
  parts: readonly string[];
}

let server: ServerProcess;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'berth-fuzzer-'));
  server = await startServerProcess({ nodePorts: '31970-31999', settings: { BERTH_ENGINE: 'simulated' } });
});
afterAll(async () => {
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** A running instance with a volume, and the ids that the document shows as examples. */
async function resources(): Promise<{ apiKey: string; ids: [string, string][] }> {
  const { client } = await login(server);
  const launch = await firstLaunchRequest(client, { name: 'fuzzed', nodePorts: [8000] });
  const { volume } = await client.createVolume({
    name: 'data',
    sizeGB: 1,
    region: launch.region,
    volumeType: 'filesystem',
  });
  const mount = { mountPath: '/root/data', remoteStorageName: 'data', remoteStorageId: volume.id, type: 'filesystem' };
  const { instanceId } = await client.launch({ ...launch, remoteStorages: [mount] });
  await running(client, instanceId);
  const { key } = await client.createApiKey({ name: 'fuzzer' });
  return {
    apiKey: key.fullKey,
    ids: [
      [exampleIds.instance, instanceId],
      [exampleIds.volume, volume.id],
      [exampleIds.region, launch.region],
    ],
  };
}

/**
 * The document with ids that exist, except where a request would delete the instance. Without
 * `Idempotency-Key`: the fuzzer sends one for different requests, whose refusals hide all others.
 */
async function documentWith(ids: [string, string][]): Promise<string> {
  const response = await fetch(`${server.apiUrl}/api/openapi.json`);
  const document: { paths: Record<string, object> } = JSON.parse(await response.text());
  for (const [route, operations] of Object.entries(document.paths)) {
    if (route === '/instance/terminate') continue;
    const text = ids.reduce((all, [shown, real]) => all.replaceAll(shown, real), JSON.stringify(operations));
    document.paths[route] = JSON.parse(text, (_name, value: unknown) =>
      Array.isArray(value) ? value.filter((one) => one?.$ref !== IDEMPOTENCY_KEY) : value,
    );
  }
  return JSON.stringify(document);
}

interface Recorded {
  ScenarioFinished?: {
    recorder: {
      cases: Record<string, { value: { method: string; path: string; body?: unknown } }>;
      checks: Record<string, { name: string; status: string }[]>;
      interactions: Record<
        string,
        {
          response: {
            status_code: number;
            headers: Record<string, string[]>;
            content: { $base64: string } | null;
          } | null;
        }
      >;
    };
  };
}

function failuresOf(report: string): Failure[] {
  return report.split('\n').flatMap((line) => {
    if (!line.includes('"failure"')) return [];
    const { ScenarioFinished: finished }: Recorded = JSON.parse(line);
    if (finished === undefined) return [];
    const { cases, checks, interactions } = finished.recorder;
    return Object.entries(checks).flatMap(([id, results]) =>
      results.flatMap(({ name, status }) => {
        if (status !== 'failure') return [];
        const sent = cases[id]?.value;
        const response = interactions[id]?.response;
        const code = response?.headers['x-error-code']?.[0];
        const content = Buffer.from(response?.content?.$base64 ?? '', 'base64').toString();
        const answer = `${response?.status_code} ${code === undefined ? '' : `${code} ${content.slice(0, 1_000)}`}`;
        return [{ check: name, exchange: `${sent?.method} ${sent?.path}: ${answer} to ${JSON.stringify(sent?.body)}` }];
      }),
    );
  });
}

/** Rows of the table: the check, and parts of the exchange. */
async function explanations(): Promise<Explanation[]> {
  const text = await readFile(new URL('../../../docs/testing.md', import.meta.url), 'utf8');
  const section = text.split('### Explained failures of the fuzzer')[1]?.split(/^##/m)[0] ?? '';
  return section
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => {
      const [check = '', ...parts] = [...line.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);
      return { check, parts };
    });
}

/** A stream of events has no end: the fuzzer reads it for a second. */
const settings = (apiKey: string): string => `
[auth.openapi.apiKey]
api_key = "${apiKey}"
[[operations]]
include-path = "/events"
request-timeout = 1
`;

test(
  'answers a fuzzer without a failure that docs/testing.md does not explain',
  async () => {
    const { apiKey, ids } = await resources();
    await writeFile(path.join(folder, 'openapi.json'), await documentWith(ids));
    await writeFile(path.join(folder, 'schemathesis.toml'), settings(apiKey));
    const bin = path.join(folder, 'venv/bin');
    await run('python3', ['-m', 'venv', path.join(folder, 'venv')]);
    await run(path.join(bin, 'pip'), ['install', '--quiet', FUZZER]);
    const options = {
      url: `${server.apiUrl}/api`,
      checks: 'all',
      'max-examples': String(MAX_EXAMPLES),
      'request-timeout': '10',
      report: 'ndjson',
      'report-ndjson-path': 'report.ndjson',
    };
    // Deterministic: the examples follow from the document alone.
    const args = Object.entries(options).map(([name, value]) => `--${name}=${value}`);
    const { stdout } = await run(
      path.join(bin, 'schemathesis'),
      ['run', 'openapi.json', ...args, '--generation-deterministic', '--continue-on-failure', '--no-color'],
      { cwd: folder, maxBuffer: 1024 ** 3 },
    ).catch((error: { stdout: string }) => error);
    const explained = await explanations();
    const unexplained = failuresOf(await readFile(path.join(folder, 'report.ndjson'), 'utf8')).filter(
      (failure) =>
        !explained.some(
          ({ check, parts }) =>
            (check === 'any' || check === failure.check) && parts.some((part) => failure.exchange.includes(part)),
        ),
    );
    expect(unexplained).toEqual([]);
    const [, tested] = /Tested: (\d+)/.exec(stdout) ?? [];
    expect(Number(tested)).toBeGreaterThan(100);
  },
  DEADLINE_MS,
);
