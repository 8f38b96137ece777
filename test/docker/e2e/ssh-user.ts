/** A person with OpenSSH's programs, and a key, known hosts and an agent of their own. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Ran {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface SshUser {
  folder: string;
  publicKey: string;
  /** Runs a shell line with `$SSH` as the command to reach the port; stdin is empty by default. */
  sh(port: number, line: string, stdin?: string): Promise<Ran>;
  /** Like `sh`, still running; on a terminal of the given size if there is one. */
  begin(port: number, line: string, terminal?: { columns: number; rows: number }): Running;
  /** The known host key, in base64. */
  knownHost(port: number): Promise<string>;
  /** Forgets every host key: another instance may get the node port of a removed one. */
  forgetHosts(): Promise<void>;
  remove(): Promise<void>;
}

export interface Running {
  child: ChildProcess;
  said(): string;
  type(text: string): void;
  ended: Promise<Ran>;
}

const DEADLINE_MS = 90_000;

export async function makeSshUser(type = 'ed25519', more: string[] = []): Promise<SshUser> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-ssh-user-'));
  const key = join(folder, 'key');
  const known = join(folder, 'known_hosts');
  const running = new Set<ChildProcess>();
  const run = (command: string, args: string[], env: NodeJS.ProcessEnv = {}): Running => {
    const child = spawn(command, args, {
      env: { TERM: 'xterm', ...process.env, ...env },
      stdio: 'pipe',
      detached: true,
    });
    running.add(child);
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (bytes: Buffer) => (stdout += bytes.toString()));
    child.stderr.on('data', (bytes: Buffer) => (stderr += bytes.toString()));
    child.stdin.on('error', () => {}); // EPIPE of a program that did not read it
    // The whole process group.
    const late = setTimeout(() => child.pid !== undefined && process.kill(-child.pid, 'SIGKILL'), DEADLINE_MS);
    const ended = once(child, 'close').then(([code]: (number | null)[]): Ran => {
      clearTimeout(late);
      running.delete(child);
      return { code: code ?? null, stdout, stderr };
    });
    return { child, said: () => stdout + stderr, type: (text) => void child.stdin.write(text), ended };
  };
  await run('ssh-keygen', ['-q', '-t', type, ...more, '-N', '', '-C', 'e2e', '-f', key]).ended;

  const options = [
    'StrictHostKeyChecking=accept-new',
    'HashKnownHosts=no',
    `UserKnownHostsFile=${known}`,
    'IdentitiesOnly=yes',
    `IdentityFile=${key}`,
    'BatchMode=yes',
    'ConnectTimeout=20',
    'LogLevel=ERROR',
  ].map((option) => `-o ${option}`);
  const envOf = (port: number): NodeJS.ProcessEnv => ({
    PORT: String(port),
    SSH_OPTIONS: options.join(' '),
    SSH: `ssh ${options.join(' ')} -p ${port} root@127.0.0.1`,
    HOME: folder,
    DIR: folder,
    KEY: key,
    SHELL: '/bin/sh',
  });

  return {
    folder,
    publicKey: (await readFile(`${key}.pub`, 'utf8')).trim(),
    async sh(port, line, stdin = '') {
      const one = run('bash', ['-c', line], envOf(port));
      one.child.stdin?.end(stdin);
      return one.ended;
    },
    begin(port, line, terminal) {
      if (terminal === undefined) return run('bash', ['-c', line], envOf(port));
      const sized = `stty cols ${terminal.columns} rows ${terminal.rows}; ${line}`;
      return run('script', ['-qefc', sized, '/dev/null'], envOf(port));
    },
    async knownHost(port) {
      const line = (await readFile(known, 'utf8')).split('\n').find((one) => one.startsWith(`[127.0.0.1]:${port} `));
      return line?.split(' ')[2] ?? '';
    },
    forgetHosts: () => rm(known, { force: true }),
    async remove() {
      for (const { pid } of running) if (pid !== undefined) process.kill(-pid, 'SIGKILL');
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
