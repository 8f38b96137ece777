/**
 * Real registries: Debian's `docker-registry`, an open one and one with credentials, each a process
 * with its own folder and port.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { RegistryCredentials } from '../../../src/engines/contract.ts';
import { until } from '../../conformance/subject.ts';
import { freePort } from '../../fixtures/free-port.ts';

const run = promisify(execFile);
const OPEN = '200';
const CLOSED = '401';

export const credentials: RegistryCredentials = { username: 'berth', secret: 'harbour' };
/** htpasswd line with a low bcrypt cost: the registry checks it in every request. */
const htpasswd = 'berth:$2y$05$abcdefghijklmnopqrstuuZ9hITkhSjgdPh1azpD9e5XbVlHeIfui\n';

export interface DebianRegistries {
  /** `127.0.0.1:<port>`: Docker needs no TLS there. */
  open: string;
  closed: string;
  /** Serves the closed one at the same address in the network namespace of a process, too. */
  serveClosedIn(pid: number): Promise<void>;
  stop(): Promise<void>;
}

export async function startDebianRegistries(): Promise<DebianRegistries> {
  const folder = await mkdtemp(path.join(tmpdir(), 'berth-registries-'));
  const children: ChildProcess[] = [];
  const stop = async (): Promise<void> => {
    for (const child of children) {
      if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) continue;
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const open = await start(path.join(folder, 'open'), '', children);
    const auth = `auth:\n  htpasswd:\n    realm: berth\n    path: ${path.join(folder, 'closed/htpasswd')}\n`;
    const closed = await start(path.join(folder, 'closed'), auth, children);
    return {
      open,
      closed,
      serveClosedIn: (pid) =>
        serve({
          folder: path.join(folder, 'closed'),
          address: closed,
          answer: CLOSED,
          enter: ['nsenter', `--net=/proc/${pid}/ns/net`],
          children,
        }),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function start(folder: string, auth: string, children: ChildProcess[]): Promise<string> {
  await mkdir(folder);
  await writeFile(path.join(folder, 'htpasswd'), htpasswd);
  const address = `127.0.0.1:${await freePort()}`;
  const storage = `storage:\n  filesystem:\n    rootdirectory: ${path.join(folder, 'images')}\n  delete:\n    enabled: true\n`;
  const config = `version: 0.1\nlog:\n  level: error\n${storage}http:\n  addr: ${address}\n${auth}`;
  await writeFile(path.join(folder, 'config.yml'), config);
  await serve({ folder, address, answer: auth === '' ? OPEN : CLOSED, enter: [], children });
  return address;
}

interface Served {
  /** Has `config.yml`. */
  folder: string;
  address: string;
  /** Status without credentials. */
  answer: typeof OPEN | typeof CLOSED;
  /** Command that runs a program in another namespace; empty: in this one. */
  enter: readonly string[];
  children: ChildProcess[];
}

async function serve({ folder, address, answer, enter, children }: Served): Promise<void> {
  const env = { PATH: process.env['PATH'], OTEL_TRACES_EXPORTER: 'none' };
  const program = [...enter, 'docker-registry', 'serve', path.join(folder, 'config.yml')];
  const child = spawn('env', program, { stdio: ['ignore', 'ignore', 'pipe'], env });
  children.push(child);
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-2_000)));
  const options = ['--silent', '--output', '/dev/null', '--write-out', '%{http_code}'];
  const request = [...enter, 'curl', ...options, `http://${address}/v2/`];
  await until('the registry answers', async () => {
    if (child.exitCode !== null) throw new Error(`docker-registry, a package of Debian, ended: ${said}`);
    return run('env', request).then(
      ({ stdout }) => stdout === answer,
      () => false,
    );
  });
}
