import { existsSync, readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';
import { projects } from './scripts/lib/projects.mjs';
import { isLong } from './test/fixtures/level.ts';
import { quickFolder } from './test/fixtures/quick-folder.ts';
import { SlowFilesFirst } from './test/fixtures/slow-files-first.ts';

/**
 * Second try for tests on a real container engine or browser, which the machine can disturb.
 * `npm test` names each test that needed it, and why; `docs/testing.md` lists it as an open defect.
 */
const retry = 1;

/** Tests of `npm run test:long` alone, each with the test that proves its promise in `npm test`. */
const longOnly = Object.keys(JSON.parse(readFileSync(new URL('test/long-only.json', import.meta.url), 'utf8')));

/**
 * Files that use up limits of the machine and change its settings, or kill an engine and wait
 * for it: nothing else may run.
 */
const alone = [
  'test/docker/e2e/engine-outage.test.ts',
  'test/docker/engines/kernel-bombs.test.ts',
  'test/docker/e2e/exhaustion.test.ts',
];

const missing = longOnly.filter((file) => !existsSync(new URL(file, import.meta.url)));
if (missing.length > 0) throw new Error(`test/long-only.json names files that do not exist: ${missing.join(', ')}`);

const exclude = ['**/node_modules/**', ...(isLong ? [] : longOnly)];

/** What tests of a project may run (`test/fixtures/programs.ts`). */
const provide = (project: string) => ({ needs: projects.find(({ name }) => name === project)?.needs ?? 'engine' });

/**
 * Projects are named by the needs of their tests: nothing, a database, a listening server, virtual
 * time, a Kubernetes cluster, a container engine, a browser.
 */
export default defineConfig({
  test: {
    // Deadlines only end what hangs: ten times the need of a busy machine. No test asserts a
    // duration.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    expect: { poll: { timeout: 120_000 } },
    exclude,
    sequence: { sequencer: SlowFilesFirst },
    setupFiles: ['test/fixtures/programs.ts'],
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          provide: provide('unit'),
          include: ['test/{unit,house}/**/*.test.ts'],
          // They only compute: one worker for each of two cores. The default leaves a core free.
          maxWorkers: 2,
          // They hold no state: one process for all files of a worker takes a third less.
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: 'db',
          provide: provide('db'),
          include: ['test/db/**/*.test.ts'],
          globalSetup: ['test/fixtures/postgres-setup.ts'],
          // They wait more than they compute.
          maxWorkers: 4,
          // They hold no state: one process for all files of a worker imports each module once.
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: 'http',
          provide: provide('http'),
          include: ['test/http/**/*.test.ts'],
          // At short nothing of it needs PostgreSQL.
          globalSetup: isLong ? ['test/fixtures/postgres-setup.ts'] : [],
          maxWorkers: 4,
          env: { TMPDIR: await quickFolder() },
          // They hold no state: one process for all files of a worker imports each module once.
          isolate: false,
        },
      },
      {
        extends: true,
        // Each file keeps all cores busy.
        test: {
          name: 'simulation',
          provide: provide('simulation'),
          include: ['test/simulation/**/*.test.ts'],
          fileParallelism: false,
        },
      },
      {
        extends: true,
        // Each file starts clusters, which keep both cores busy.
        test: {
          name: 'kubernetes',
          provide: provide('kubernetes'),
          include: ['test/kubernetes/**/*.test.ts'],
          exclude,
          fileParallelism: false,
        },
      },
      {
        extends: true,
        test: {
          name: 'docker',
          provide: provide('docker'),
          include: ['test/docker/**/*.test.ts'],
          exclude: [...exclude, ...alone],
          globalSetup: ['test/fixtures/docker-images-setup.ts'],
          retry,
          // They wait for containers more than they compute.
          maxWorkers: 4,
        },
      },
      {
        extends: true,
        test: {
          name: 'docker-alone',
          provide: provide('docker-alone'),
          include: alone,
          globalSetup: ['test/fixtures/docker-images-setup.ts'],
          retry,
          fileParallelism: false,
          // After the files of `docker`.
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        // Chromium and the simulated engine: each file keeps a core busy.
        test: {
          name: 'console',
          provide: provide('console'),
          include: ['test/console/**/*.test.ts'],
          exclude,
          globalSetup: ['test/fixtures/console-setup.ts'],
          retry,
          maxWorkers: 2,
        },
      },
      {
        extends: true,
        // Chromium aborts loads whenever a container comes or goes: run nothing meanwhile.
        test: {
          name: 'browser',
          provide: provide('browser'),
          include: ['test/browser/**/*.test.ts'],
          globalSetup: ['test/fixtures/docker-images-setup.ts'],
          retry,
          fileParallelism: false,
        },
      },
      {
        extends: true,
        // On an engine of its own, which `test/world/with-docker.sh` starts.
        test: {
          name: 'world',
          provide: provide('world'),
          include: ['test/docker/engines/docker-conformance-*.test.ts'],
          exclude,
          globalSetup: ['test/world/setup.ts'],
          retry,
          maxWorkers: 2,
        },
      },
      {
        extends: true,
        // Gives the engine cards, which all of its tests would see.
        test: {
          name: 'world-alone',
          provide: provide('world'),
          include: ['test/world/*.test.ts'],
          retry,
          fileParallelism: false,
          // After the files of `world`.
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'neighbours',
          provide: provide('neighbours'),
          include: ['test/world/neighbours/**/*.test.ts'],
          maxWorkers: 2,
        },
      },
      {
        extends: true,
        test: { name: 'gpu', provide: provide('gpu'), include: ['test/gpu/**/*.test.ts'], exclude },
      },
    ],
  },
});
