import { constants } from 'node:fs';
import { access, chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { ensureGo } from '../../../scripts/lib/go.mjs';
import { ensureKubernetes, kubernetesNeeds } from '../../../scripts/lib/kubernetes.mjs';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'berth-kubernetes-'));
  return () => rm(folder, { recursive: true });
});

async function fakeGo(version: string, download: string): Promise<string> {
  const file = path.join(folder, `go-${version}`);
  await writeFile(
    file,
    `#!/bin/sh\nif [ "$1" = version ]; then echo go version go${version} linux/amd64; exit; fi\n${download}\n`,
  );
  await chmod(file, 0o755);
  return file;
}

test('takes the first Go that is new enough', async () => {
  const gos = [await fakeGo('1.9', 'exit 1'), await fakeGo('1.26', 'exit 1'), await fakeGo('1.27.1', 'exit 1')];
  expect(await ensureGo('1.26.4', gos)).toBe(gos[2]);
});

test('fetches a newer Go by an old one, and makes it executable', async () => {
  const tool = path.join(folder, 'fetched/pkg/tool/linux_amd64/compile');
  const go = path.join(folder, 'fetched/bin/go');
  for (const file of [tool, go]) {
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, '');
  }
  const old = await fakeGo('1.19.8', `printf '{\\n\\t"Dir": "${folder}/fetched"\\n}\\n'`);
  expect(await ensureGo('1.26.4', [old])).toBe(go);
  for (const file of [tool, go]) await access(file, constants.X_OK);
});

test.each([
  ['without any Go', [], 'Go is not installed: install Go 1.'],
  ['when an old Go cannot fetch a newer', ['1.19.8'], 'could not fetch it: no proxy answers'],
])('says what is missing %s', async (_, versions, why) => {
  const gos = await Promise.all(versions.map((version) => fakeGo(version, 'echo no proxy answers; exit 1')));
  expect(await ensureGo('1.26.4', gos)).toEqual({ why: expect.stringContaining(why) });
});

test('installs nothing for clusters before Kubernetes is built, and says how to build it', async ({ skip }) => {
  skip(process.platform !== 'linux' || process.getuid?.() !== 0, 'clusters need root on Linux');
  vi.stubEnv('XDG_CACHE_HOME', folder);
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(await ensureKubernetes({ builds: false })).toContain('`npm run test:kubernetes` builds it');
  expect(kubernetesNeeds({ builds: false })).toEqual([]);
  expect(kubernetesNeeds({ builds: true }).map(({ apt }) => apt)).toContain('containernetworking-plugins');
});
