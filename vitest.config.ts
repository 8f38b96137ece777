import { defineConfig } from 'vitest/config';

/**
 * `fast` and `simulation` need nothing but Node, `parts` a PostgreSQL, `engines` a container engine and an ssh client, `browsers` a browser, too:
 * Chromium gives up what it loads whenever a container comes or goes, and so none but its own may.
 */
const browsers = [
  'hosts',
  'notebook',
  'notebook-lasts',
  'port-link',
  'terminal-browser',
  'visitor',
  'waiting-pages',
].map((name) => `test/e2e/${name}.test.ts`);

/**
 * Where real time passes, a machine that others use, too, can be late for once: then a test may pass at its second try, which
 * `npm test` names with what went wrong. What is broken fails twice. The simulation has a clock of its own, and one try.
 */
const retry = 1;

export default defineConfig({
  test: {
    // No promise of speed: a machine that others use, too, may be three times as slow as it was.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'fast',
          include: ['test/{domain,contract,house,main,scripts}/**/*.test.ts', 'test/*.test.ts'],
        },
      },
      {
        extends: true,
        test: {
          name: 'parts',
          include: ['test/{store,migrations,storage,passes,api,gateway}/**/*.test.ts'],
          globalSetup: ['test/store/global-setup.ts'],
          retry,
          // They wait more than they work.
          maxWorkers: 4,
        },
      },
      {
        extends: true,
        test: {
          name: 'simulation',
          include: ['test/simulation/**/*.test.ts'],
          // Each file keeps all cores busy by itself.
          fileParallelism: false,
        },
      },
      {
        extends: true,
        test: {
          name: 'engines',
          include: ['test/{engines,e2e}/**/*.test.ts'],
          exclude: browsers,
          testTimeout: 180_000,
          retry,
          // They wait for containers and browsers more than they work.
          maxWorkers: 2,
        },
      },
      {
        extends: true,
        test: { name: 'browsers', include: browsers, testTimeout: 180_000, retry, fileParallelism: false },
      },
    ],
  },
});
