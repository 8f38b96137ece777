/** A real ssh client with a key of its own. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface SshKey {
  publicKey: string;
  /** Runs a command over ssh and answers what it printed; rejects with its exit code. */
  ssh: (port: number, command: string) => Promise<string>;
  remove: () => Promise<void>;
}

export async function makeSshKey(): Promise<SshKey> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-ssh-'));
  const file = join(folder, 'key');
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'e2e', '-f', file]);
  const options = [
    'StrictHostKeyChecking=accept-new',
    `UserKnownHostsFile=${join(folder, 'known_hosts')}`,
    'BatchMode=yes',
    'ConnectTimeout=10',
  ];
  return {
    publicKey: (await readFile(`${file}.pub`, 'utf8')).trim(),
    async ssh(port, command) {
      const args = [
        '-i',
        file,
        '-p',
        String(port),
        ...options.flatMap((option) => ['-o', option]),
        'root@127.0.0.1',
        command,
      ];
      return (await run('ssh', args, { timeout: 30_000 })).stdout;
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
