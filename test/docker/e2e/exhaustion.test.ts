/** While one account uses up all that instances share, another works on, and so does the host. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { keepKernelLimits } from '../../fixtures/bombs.ts';
import { IMAGE_DEADLINE_MS } from '../../fixtures/first-launch.ts';
import { startServerProcess, type ServerProcess } from '../../fixtures/server-process.ts';
import { makeExhaustion, type Exhaustion } from './exhaustion.ts';
import { makeSshUser, type SshUser } from '../../fixtures/ssh-user.ts';

const ATTACK_SECONDS = 90;
const WORK_MS = 70_000;

let restoreLimits: (() => Promise<void>) | undefined;
let server: ServerProcess | undefined;
let user: SshUser | undefined;
let exhaustion: Exhaustion | undefined;
beforeAll(async () => {
  restoreLimits = await keepKernelLimits();
  user = await makeSshUser();
  server = await startServerProcess({ nodePorts: '32360-32379', settings: { BERTH_KERNEL_LIMITS: 'raise' } });
  exhaustion = await makeExhaustion(server, user);
}, IMAGE_DEADLINE_MS);
afterAll(async () => {
  try {
    await exhaustion?.end();
  } finally {
    await server?.stop();
    await user?.remove();
    await restoreLimits?.();
  }
});

test('all bombs of one account at once: no list, launch, command, ssh login, cell or write of another fails', async () => {
  if (exhaustion === undefined) throw new Error('not set up');
  const uses = Object.entries(exhaustion.uses);
  for (const [, use] of uses) await use();
  await exhaustion.attack(ATTACK_SECONDS);
  const failures: string[] = [];
  let rounds = 0;
  for (const endMs = performance.now() + WORK_MS; performance.now() < endMs; rounds++)
    for (const [name, use] of uses) await use().catch((error: unknown) => failures.push(`${name}: ${String(error)}`));
  expect(failures).toEqual([]);
  expect(rounds).toBeGreaterThanOrEqual(3);
  // Each bomb met the limit of its own instance.
  expect(await exhaustion.reports()).toEqual({
    'epoll watches': expect.stringContaining('ended'),
    'inotify instances': expect.stringContaining('ended'),
    'AIO contexts': expect.stringContaining('ended'),
    memory: expect.stringContaining('Killed'),
    processors: expect.stringContaining('ended'),
    processes: expect.stringContaining('ended'),
    terminals: expect.stringContaining('out of pty devices'),
    connections: expect.stringContaining('ended'),
    'the root disk': 'Stopped: RootDiskOverSize',
    'files of the engine': 'Stopped: RootDiskOverSize',
  });
  for (const [name, least] of Object.entries({ 'epoll watches': 0.5, 'inotify instances': 0.3, memory: 0.5 }))
    expect((await exhaustion.peaks(name)).memory, name).toBeGreaterThan(least);
  expect((await exhaustion.peaks('processes')).processes).toBeGreaterThan(0.9);
});
