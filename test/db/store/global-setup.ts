/**
 * One PostgreSQL for a run of vitest: `globalSetup: ['test/db/store/global-setup.ts']`. Its address reaches tests by `inject`. Without it
 * each test file that needs one starts its own.
 */
import type { TestProject } from 'vitest/node';
import { startWithTemplate } from './postgres-template.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** With `%s` where a database's name goes. */
    postgresUrl?: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startWithTemplate();
  project.provide('postgresUrl', server.urlOf('%s'));
  return () => server.stop();
}
