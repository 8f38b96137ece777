/** Containers of the default image that begin with `images/start.sh`, as the engine starts them. */
import { execFile } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { chmod, copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import Docker from 'dockerode';
import { afterAll, beforeAll, expect, onTestFinished, vi } from 'vitest';
import WebSocket from 'ws';
import { z } from 'zod';
import { shellExports, type Environment } from '../../../src/domain/compute/environment.ts';
import { BUILD_DEADLINE_MS, ensureDefaultImage } from '../../fixtures/default-images.ts';

export const run = promisify(execFile);
export const images = new URL('../../../images/', import.meta.url).pathname;
export const docker = new Docker();
const NOTEBOOK = 'berth: notebook ';
export let image: string;
export let lab: string;
let key: string;

beforeAll(async () => {
  lab = await mkdtemp(join(tmpdir(), 'start-test-'));
  key = join(lab, 'key');
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key]);
  image = await ensureDefaultImage(docker, 'notebook');
}, BUILD_DEADLINE_MS);
afterAll(() => rm(lab, { recursive: true }));

/**
 * Starts a container as the engine does; removed after the test. `before` runs first, to remove
 * parts of the image.
 */
export async function start(options: {
  initScript?: string;
  startCommand?: string;
  env?: string[];
  variables?: Environment;
  image?: string;
  before?: string;
  tmpfs?: Record<string, string>;
  hostKey?: string;
  memoryBytes?: number;
}) {
  const id = `notebook-${randomUUID()}`;
  const control = await mkdtemp(join(lab, 'control-'));
  await chmod(control, 0o755);
  const token = randomBytes(24).toString('hex');
  const baseUrl = `/notebook/${id}/`;
  await copyFile(join(images, 'start.sh'), join(control, 'start'));
  await copyFile(join(images, 'jupyter_server_config.py'), join(control, 'jupyter-config'));
  await copyFile(`${key}.pub`, join(control, 'authorized_keys'));
  await writeFile(join(control, 'init-script'), options.initScript ?? '');
  await writeFile(join(control, 'name'), 'first\n');
  await writeFile(join(control, 'notice.json'), '{}\n');
  await writeFile(join(control, 'start-command'), options.startCommand ?? '');
  await writeFile(join(control, 'notebook-token'), `${token}\n`, { mode: 0o600 });
  if (options.hostKey !== undefined) await writeFile(join(control, 'ssh-host-key'), options.hostKey, { mode: 0o600 });
  const own: [string, string][] = [
    ['BERTH_INSTANCE_ID', id],
    ['BERTH_BASE_URL', baseUrl],
  ];
  const exports = shellExports(new Map([...own, ...(options.variables ?? [])]));
  await writeFile(join(control, 'env'), exports, { mode: 0o600 });
  const begin = ['/bin/sh', '/etc/berth/start'];
  const container = await docker.createContainer({
    Image: options.image ?? image,
    Entrypoint: options.before === undefined ? begin : ['/bin/sh', '-c', `${options.before}; exec ${begin.join(' ')}`],
    Cmd: [],
    User: '0',
    WorkingDir: '/root',
    Hostname: `${id}-0`.slice(0, 63),
    Env: options.env ?? [],
    HostConfig: {
      Binds: [`${control}:/etc/berth:ro`],
      SecurityOpt: ['no-new-privileges'],
      Memory: options.memoryBytes ?? 2 ** 30,
      PidsLimit: 512,
      Tmpfs: options.tmpfs ?? {},
    },
  });
  onTestFinished(async () => {
    await container.remove({ force: true });
  });
  await container.start();
  const address = async () =>
    Object.values((await container.inspect()).NetworkSettings.Networks)[0]?.IPAddress ?? 'nowhere';
  const sshOptions = [
    'BatchMode=yes',
    'IdentitiesOnly=yes',
    'StrictHostKeyChecking=no',
    'UserKnownHostsFile=/dev/null',
  ];
  const lines = async (): Promise<string[]> => {
    const raw = await container.logs({ stdout: true, stderr: false });
    const text: string[] = [];
    for (let at = 0; at + 8 <= raw.length; at += 8 + raw.readUInt32BE(at + 4))
      text.push(raw.toString('utf8', at + 8, at + 8 + raw.readUInt32BE(at + 4)));
    return text
      .join('')
      .split('\n')
      .filter((line) => line.startsWith('berth: '));
  };
  const sshFlags = [...sshOptions, 'LogLevel=ERROR'].flatMap((option) => ['-o', option]);
  return {
    container,
    control,
    address,
    token,
    baseUrl,
    /** Lines of stdout that Berth reads, but for those about the notebook. */
    said: async (): Promise<string[]> => (await lines()).filter((line) => !line.startsWith(NOTEBOOK)),
    notebookSaid: async (): Promise<string[]> =>
      (await lines()).filter((line) => line.startsWith(NOTEBOOK)).map((line) => line.slice(NOTEBOOK.length)),
    ssh: async (command: string, identity = key): Promise<string> =>
      (await run('ssh', ['-i', identity, ...sshFlags, `root@${await address()}`, command])).stdout,
    /** Returns the output of a line in a login shell. */
    async login(line: string): Promise<string> {
      const shell = run('ssh', ['-T', '-i', key, ...sshFlags, `root@${await address()}`]);
      shell.child.stdin?.end(`${line}\n`);
      return (await shell).stdout;
    },
    async http(
      path: string,
      init: RequestInit & { headers?: Record<string, string> } = {},
      credential = `token ${token}`,
    ): Promise<Response> {
      return fetch(`http://${await address()}:8888${baseUrl}${path}`, {
        redirect: 'manual',
        ...init,
        headers: { authorization: credential, 'content-type': 'application/json', ...init.headers },
      });
    },
    /** Returns the first output of the code in a new kernel. */
    async cell(code: string, name = 'python3'): Promise<string> {
      const made = await this.http('api/kernels', { method: 'POST', body: JSON.stringify({ name }) });
      expect(made.status).toBe(201);
      const kernel = z.object({ id: z.string() }).parse(await made.json());
      const url = `ws://${await address()}:8888${baseUrl}api/kernels/${kernel.id}/channels`;
      const socket = new WebSocket(url, { headers: { authorization: `token ${token}` } });
      onTestFinished(() => socket.terminate());
      return new Promise<string>((resolve, reject) => {
        socket.on('error', reject);
        socket.on('message', (data: Buffer) => {
          const message: { msg_type: string; content: { text?: string } } = JSON.parse(data.toString());
          if (message.msg_type === 'stream') resolve(message.content.text ?? '');
        });
        socket.on('open', () => {
          const header = { msg_id: '1', msg_type: 'execute_request', username: '', session: 's', version: '5.3' };
          const content = { code, silent: false, store_history: false };
          socket.send(JSON.stringify({ channel: 'shell', header, parent_header: {}, metadata: {}, content }));
        });
      });
    },
  };
}
export const eventually = <T>(check: () => Promise<T> | T) => vi.waitFor(check, { timeout: 120_000, interval: 20 });
