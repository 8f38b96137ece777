/** One PostgreSQL for a run of vitest: `globalSetup: ['test/store/global-setup.ts']`. Its address reaches tests by `inject`. */
import type { TestProject } from 'vitest/node';
import { startPostgres } from './postgres-server.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** With `%s` where a database's name goes. */
    postgresUrl?: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startPostgres();
  project.provide('postgresUrl', server.urlOf('%s'));
  return () => server.stop();
}
