/** Two PostgreSQL servers: the primary dies, and its standby takes over. */
import { expect, onTestFinished, test } from 'vitest';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';
import { administer } from '../../fixtures/postgres-template.ts';
import { makePair, makeWriters } from './fail-over-fixture.ts';

test('goes on at the promoted standby, with each answered write and the lock', async () => {
  const pair = await makePair();
  const { held, errors, ...writers } = await makeWriters(pair);
  await pair.primary.kill();
  await administer(pair.standby.socket, 'select pg_promote()');
  await writers.goesOn();
  expect(await writers.lost()).toEqual([]);
  expect(held).toEqual([false, true]);
  // So a client of the API gets 503, and repeats its request.
  expect(errors.length).toBeGreaterThan(0);
  expect(errors.filter((error) => !(error instanceof Refusal) || error.code !== 'unavailable')).toEqual([]);
  await expect(writers.lockAgain()).rejects.toThrow(/in use by another Berth/);
});

test('leaves a server that hangs without closing its connections', async () => {
  const pair = await makePair();
  const writers = await makeWriters(pair);
  const thaw = await pair.primary.freeze();
  onTestFinished(thaw);
  await administer(pair.standby.socket, 'select pg_promote()');
  await writers.goesOn();
  expect(await writers.lost()).toEqual([]);
});
