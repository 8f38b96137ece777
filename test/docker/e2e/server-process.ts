/** The program itself, started as an operator starts it, on the container engine of this machine. */
import { removeDataFolder } from '../../../scripts/lib/remove-data-folder.mjs';
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { createServer } from 'node:net';
import { DatabaseSync } from 'node:sqlite';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { program } from '../../../scripts/lib/program.mjs';
import Docker from 'dockerode';
import { makeClient } from '../../../src/contract/client.ts';
import { labels } from '../../../src/engines/labels.ts';

export const PASSWORD = 'correct horse battery';
const START_DEADLINE_MS = 30_000;
const ROOT = join(import.meta.dirname, '../../..');

export interface Program {
  output: () => string;
  /** Null while it does not run. */
  pid: () => number | null;
  kill: (signal: NodeJS.Signals) => Promise<void>;
  /** Starts it, or starts it again on the same data and the same addresses. */
  start: () => Promise<void>;
}

export interface ServerProcess extends Program {
  apiUrl: string;
  gatewayUrl: string;
  folder: string;
  /** Where it was asked to be a process of its own. */
  gateway: Program | null;
  /** Ends it, and removes from the engine whatever it left there. */
  stop: () => Promise<void>;
}

/** The program with such an environment, not started yet; `greeting`: what it says once it serves; `openFiles`: as many and no more. */
function makeProgram(env: NodeJS.ProcessEnv, greeting: string, openFiles: number | null = null): Program {
  let child: ChildProcess | null = null;
  let text = '';
  return {
    output: () => text,
    pid: () => child?.pid ?? null,
    async start() {
      const limit = openFiles === null ? '' : `ulimit -n ${openFiles} && `;
      const started = spawn('sh', ['-c', `${limit}exec "$0" "$@"`, process.execPath, ...program], {
        cwd: ROOT,
        env,
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      child = started;
      const from = text.length;
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`it did not serve in time:\n${text}`)), START_DEADLINE_MS);
        const read = (bytes: Buffer) => {
          text += bytes.toString();
          if (text.includes(greeting, from)) resolve(clearTimeout(timer));
        };
        started.stdout.on('data', read);
        started.stderr.on('data', read);
        started.once('exit', (code) => reject(new Error(`it ended with ${code}:\n${text}`)));
      });
    },
    async kill(signal) {
      const running = child;
      child = null;
      if (!running || running.exitCode !== null || running.signalCode !== null) return;
      const gone = new Promise((resolve) => running.once('exit', resolve));
      running.kill(signal);
      await gone;
    },
  };
}

export const freePort = async (): Promise<number> => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
};

/**
 * `nodePorts`: a range of the file's own, so that files which run at once don't take each other's. `prepare` is done on the data
 * folder before the first start.
 */
export async function startServerProcess({
  nodePorts,
  prepare = async () => {},
  settings = {},
  gatewayApart = false,
  openFiles = null,
}: {
  nodePorts: string;
  prepare?: (folder: string) => Promise<void>;
  /** More of the operator's, as the environment has them. */
  settings?: Readonly<Record<string, string>>;
  gatewayApart?: boolean;
  openFiles?: number | null;
}): Promise<ServerProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-e2e-'));
  await prepare(folder);
  const listen = `127.0.0.1:${await freePort()}`;
  const gatewayListen = `127.0.0.1:${await freePort()}`;
  const env = {
    ...process.env,
    BERTH_DATA: folder,
    BERTH_LISTEN: listen,
    BERTH_GATEWAY_LISTEN: gatewayListen,
    BERTH_ADMIN_PASSWORD: PASSWORD,
    BERTH_NODE_PORTS: nodePorts,
    BERTH_NODE_PORT_ADDRESS: '127.0.0.1',
    BERTH_REGISTRY_IMAGES: 'off',
    BERTH_CPU_OVERCOMMIT: '50',
    BERTH_POOL: 'overcommit=100',
    ...settings,
  };
  const api = makeProgram(gatewayApart ? { ...env, BERTH_ROLE: 'api' } : env, 'Berth serves.', openFiles);
  const gateway = gatewayApart ? makeProgram({ ...env, BERTH_ROLE: 'gateway' }, 'The gateway serves') : null;
  await api.start();
  await gateway?.start();
  return {
    apiUrl: `http://${listen}`,
    gatewayUrl: `http://${gatewayListen}`,
    folder,
    ...api,
    gateway,
    async stop() {
      const installation = installationOf(folder);
      await gateway?.kill('SIGTERM');
      await api.kill('SIGTERM');
      await removeAll(installation);
      removeDataFolder(folder);
    },
  };
}

function asked<T>(folder: string, ask: (database: DatabaseSync) => T): T {
  const database = new DatabaseSync(join(folder, 'berth.db'), { readOnly: true });
  try {
    return ask(database);
  } finally {
    database.close();
  }
}

export const installationOf = (folder: string): string =>
  asked(folder, (database) => {
    const row = database.prepare("select value from setting where name = 'installation'").get();
    if (typeof row?.['value'] !== 'string') throw new Error('the store has no installation id');
    return row['value'];
  });

/** The statuses that an instance went through, as its events tell. */
export const statusesOf = (folder: string, id: string): string[] =>
  asked(folder, (database) => {
    const rows = database.prepare('select data from event where "subjectId" = ? order by id').all(id);
    return rows.flatMap(({ data }) => {
      const { status }: { status?: string } = JSON.parse(String(data));
      return status === undefined ? [] : [status];
    });
  });

export const docker = new Docker();

const ofInstallation = (installation: string) => ({ label: [`${labels.installation}=${installation}`] });

/** Names of all that the engine holds of an installation. */
export async function ownedNames(installation: string, engine = docker): Promise<string[]> {
  const filters = ofInstallation(installation);
  const containers = await engine.listContainers({ all: true, filters });
  const networks = await engine.listNetworks({ filters });
  return [...containers.map(({ Names }) => Names[0] ?? '?'), ...networks.map(({ Name }) => Name)];
}

/** What the server is just removing itself (404, 409) is left to it, and looked at again. */
export async function removeAll(installation: string, engine = docker): Promise<void> {
  const filters = ofInstallation(installation);
  const settle = (removal: Promise<unknown>) =>
    removal.catch((error: unknown) => {
      const code = error instanceof Error && 'statusCode' in error ? error.statusCode : null;
      if (code !== 404 && code !== 409 && code !== 403) throw error;
    });
  await until(
    async () => {
      for (const { Id } of await engine.listContainers({ all: true, filters })) {
        await settle(engine.getContainer(Id).remove({ force: true, v: true }));
      }
      for (const { Id } of await engine.listNetworks({ filters })) await settle(engine.getNetwork(Id).remove());
      return ownedNames(installation, engine);
    },
    (names) => names.length === 0,
  );
  for (const { Id } of await engine.listImages({ filters: JSON.stringify(filters) }))
    await settle(engine.getImage(Id).remove({ force: true }));
}

export type Client = ReturnType<typeof makeClient>;

export async function login(
  server: Pick<ServerProcess, 'apiUrl'>,
  username = 'admin',
  password = PASSWORD,
): Promise<{ client: Client; token: string }> {
  const { accessToken } = await makeClient({ baseUrl: `${server.apiUrl}/api` }).login({ username, password });
  return {
    client: makeClient({ baseUrl: `${server.apiUrl}/api`, credential: { kind: 'token', token: accessToken } }),
    token: accessToken,
  };
}

/** Asks until the answer is as wanted; the last answer is told when it never is. */
export async function until<T>(ask: () => Promise<T>, wanted: (answer: T) => boolean, deadlineMs = 60_000): Promise<T> {
  const endMs = Date.now() + deadlineMs;
  for (;;) {
    const answer = await ask();
    if (wanted(answer)) return answer;
    if (Date.now() > endMs)
      throw new Error(`after ${deadlineMs} ms it is still ${JSON.stringify(answer).slice(0, 2_000)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
