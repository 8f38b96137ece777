/** The image of Berth: small, without a shell, and content with as few rights as a Pod gives. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../fixtures/control.ts';
import { BERTH_IMAGE, buildBerthImage, docker } from '../../fixtures/berth-image.ts';

const MIB = 1024 * 1024;
const name = `berth-image-${randomUUID().slice(0, 8)}`;

beforeAll(buildBerthImage, 600_000);
afterAll(() => docker('rm', '--force', '--volumes', name));

test('is below 230 MB, and has neither shell, npm, types nor tests', async () => {
  const size = Number(await docker('image', 'inspect', '--format', '{{.Size}}', BERTH_IMAGE));
  expect(size).toBeGreaterThan(100 * MIB);
  expect(size).toBeLessThan(230 * MIB);
  const script = `
    const folders = fs.readdirSync('/').filter((name) => !['dev', 'proc', 'sys'].includes(name));
    const isFolder = (name) => fs.statSync('/' + name).isDirectory();
    const below = (name) => fs.readdirSync('/' + name, { recursive: true }).map((file) => name + '/' + file);
    const files = folders.filter(isFolder).flatMap(below);
    const bad = /\\/(sh|bash)$|node_modules\\/(npm|vitest|typescript)$|\\.d\\.ts$|\\.map$|^berth\\/test\\//;
    console.log(JSON.stringify({ count: files.length, bad: files.filter((file) => bad.test(file)) }))`;
  const found = await docker('run', '--rm', '--entrypoint', './node', BERTH_IMAGE, '-e', script);
  const { count, bad }: { count: number; bad: string[] } = JSON.parse(found);
  expect(bad).toEqual([]);
  expect(count).toBeGreaterThan(1_000);
});

test('serves as a user without rights on a read-only root, and ends cleanly on SIGTERM', async () => {
  const rights = ['--read-only', '--tmpfs', '/tmp', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'];
  const env = ['BERTH_ENGINE=simulated', 'BERTH_LISTEN=0.0.0.0:8080', 'BERTH_PUBLIC_ADDRESS=127.0.0.1'];
  await docker('run', '--detach', '--name', name, ...rights, ...env.flatMap((one) => ['--env', one]), BERTH_IMAGE);
  const inside = (script: string) => docker('exec', name, './node', '-p', script);
  await eventually(async () => (await docker('logs', name)).includes('Berth is ready.'));
  expect(await inside('`${process.getuid()} ${process.getgid()} ${process.pid > 1}`')).toBe('10001 10001 true\n');
  const readyz = `fetch('http://127.0.0.1:8080/readyz').then(({ status }) => console.log(status))`;
  expect(await docker('exec', name, './node', '-e', readyz)).toBe('200\n');
  expect(await inside(`fs.readFileSync('/var/lib/berth/admin-password', 'utf8').trim().length >= 16`)).toBe('true\n');
  await docker('stop', '--time', '60', name);
  expect(await docker('inspect', '--format', '{{.State.ExitCode}}', name)).toBe('0\n');
});
