/** The image of Berth, built by `deploy/Dockerfile` on a base that is made here, not pulled. */
import { cp, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Docker from 'dockerode';
import { findProgram } from '../../../scripts/lib/run.mjs';
import { ensureDefaultImage } from '../../fixtures/default-images.ts';
import { runHost } from '../../kubernetes/cluster/client.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
const BASE = 'berth.test/build-base:1';
export const BERTH_IMAGE = 'berth.test/berth:1';

/** Debian with this machine's npm, Node and certificate authorities. */
const BASE_RECIPE = (from: string): string => `FROM ${from}
COPY npm /usr/lib/node_modules/npm
COPY node /usr/bin/node
COPY authorities.pem /etc/ssl/authorities.pem
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/bin/npm
ENV NODE_EXTRA_CA_CERTS=/etc/ssl/authorities.pem
`;

export async function docker(...args: readonly string[]): Promise<string> {
  const ended = await runHost('docker', args);
  if (ended.code !== 0) throw new Error(`docker ${args.join(' ')} ended with ${ended.code}: ${ended.stderr}`);
  return ended.stdout;
}

/** Steps that an earlier build made are taken from the engine's cache. */
export async function buildBerthImage(): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'berth-build-base-'));
  try {
    const npm = await realpath(findProgram('npm') ?? '/npm is not in PATH');
    const authorities = process.env['NODE_EXTRA_CA_CERTS'] ?? '/etc/ssl/certs/ca-certificates.crt';
    await cp(path.dirname(path.dirname(npm)), path.join(folder, 'npm'), { recursive: true });
    await cp(process.execPath, path.join(folder, 'node'));
    await cp(authorities, path.join(folder, 'authorities.pem'), { dereference: true });
    const from = await ensureDefaultImage(new Docker(), 'notebook');
    await writeFile(path.join(folder, 'Dockerfile'), BASE_RECIPE(from));
    await docker('build', '--quiet', '--tag', BASE, folder);
    const file = ['--file', path.join(ROOT, 'deploy/Dockerfile'), '--build-arg', `BASE=${BASE}`];
    await docker('build', '--quiet', '--network', 'host', ...file, '--tag', BERTH_IMAGE, ROOT);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
