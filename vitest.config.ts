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
          // They wait more than they work.
          maxWorkers: 3,
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
          // They wait for containers and browsers more than they work.
          maxWorkers: 2,
        },
      },
      {
        extends: true,
        test: { name: 'browsers', include: browsers, testTimeout: 180_000, fileParallelism: false },
      },
    ],
  },
});
