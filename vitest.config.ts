import { defineConfig } from 'vitest/config';

/**
 * One second try for tests on a real container engine or browser, which a busy machine can delay. `npm test` names each test that
 * needed the second try, and why.
 */
const retry = 1;

/** Projects are named by what their tests need: nothing, a database, a listening server, virtual time, a container engine, a browser. */
export default defineConfig({
  test: {
    // Generous: a shared machine can be three times as slow. No test asserts a duration.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    projects: [
      { extends: true, test: { name: 'unit', include: ['test/{unit,house}/**/*.test.ts'] } },
      {
        extends: true,
        test: {
          name: 'db',
          include: ['test/db/**/*.test.ts'],
          globalSetup: ['test/fixtures/postgres-setup.ts'],
          // They wait more than they compute.
          maxWorkers: 4,
        },
      },
      {
        extends: true,
        test: {
          name: 'http',
          include: ['test/http/**/*.test.ts'],
          globalSetup: ['test/fixtures/postgres-setup.ts'],
          maxWorkers: 4,
        },
      },
      {
        extends: true,
        // Each file keeps all cores busy.
        test: { name: 'simulation', include: ['test/simulation/**/*.test.ts'], fileParallelism: false },
      },
      {
        extends: true,
        test: {
          name: 'docker',
          include: ['test/docker/**/*.test.ts'],
          globalSetup: ['test/fixtures/postgres-setup.ts'],
          testTimeout: 180_000,
          retry,
          // They wait for containers more than they compute.
          maxWorkers: 2,
        },
      },
      {
        extends: true,
        // Chromium aborts loads whenever a container comes or goes, so nothing else may run beside it.
        test: {
          name: 'browser',
          include: ['test/browser/**/*.test.ts'],
          testTimeout: 180_000,
          retry,
          fileParallelism: false,
        },
      },
    ],
  },
});
