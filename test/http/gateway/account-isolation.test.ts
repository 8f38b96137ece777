/**
 * Two accounts on one gateway: every address of Alice's, bypass attempt and visitor without access.
 * None succeeds, and no response reveals whether the instance exists. Control checks: the owner
 * gets in, and the visitor's credentials open their own address.
 */
import { describe, expect, test } from 'vitest';
import { atLevel, sampled } from '../../fixtures/level.ts';
import {
  A,
  DOMAIN,
  NEVER,
  closedTo,
  doors,
  exchange,
  house,
  nowhere,
  OWNER_SHOWS,
  plain,
  upgrade,
  visitors,
} from './access-matrix.ts';
import type { House } from './access-matrix.ts';
import { tricks } from './bypass-attempts.ts';

const withoutIds = (answer: string | null): string | undefined =>
  answer
    ?.replaceAll(A, NEVER)
    .replaceAll(A.toUpperCase(), NEVER.toUpperCase())
    .replaceAll(/^date:.*$/gim, '');

async function tellWhoCameIn(
  { harness, reached }: House,
  bytes: string | readonly string[],
): Promise<{ answer: string | null; places: string[] }> {
  reached.length = 0;
  const answer = await exchange(harness.port, bytes);
  return { answer, places: [...reached] };
}

test('the bypass attempts are complete and have unique names', () => {
  expect(new Set(tricks.map(({ name }) => name)).size).toBe(tricks.length);
  expect(tricks.length).toBeGreaterThanOrEqual(380);
});

describe.each(doors)('$name', (door) => {
  const strangersHere = visitors.filter(({ isAccount }) => !(isAccount && door.forAccounts));

  test.each(strangersHere)('is closed to $name', async (visitor) => {
    // Level short: each attempt runs once per address, with alternating visitors.
    const turns = strangersHere.length;
    const tricksHere = sampled(tricks, { oneIn: turns, from: strangersHere.indexOf(visitor) });
    const built = await house();
    const closed = closedTo(visitor);
    const wrong: string[] = [];
    let tried = 0;
    for (const { name, bytes, owner = 0 } of tricksHere) {
      const sent = bytes(door, visitor.shows);
      if (sent === null) continue;
      tried += 1;
      const { answer, places } = await tellWhoCameIn(built, sent);
      const reported = [...(answer ?? '').matchAll(/inside (\w+:\d+)/g)].map(([, place]) => place ?? '');
      const came = reported.filter((place) => closed.includes(place)).length;
      if (answer === null) wrong.push(`${name}: no end`);
      else if (came > owner) wrong.push(`${name}: reached ${reported.join()}`);
      else if (owner === 0 && places.some((place) => closed.includes(place)))
        wrong.push(`${name}: reached ${places.join()}`);
      // Her public port is no secret.
      else if (owner === 0 && visitor.isCompared && !reported.includes('a:80')) {
        const elsewhere = await exchange(built.harness.port, bytes(nowhere(door), visitor.shows) ?? '');
        if (withoutIds(elsewhere) !== withoutIds(answer))
          wrong.push(`${name}: tells that it is there: ${answer.slice(0, 300)}`);
      }
    }
    expect(wrong).toEqual([]);
    expect(tried).toBeGreaterThan(atLevel({ short: 330 / turns / 2, long: 330 }));
    // Control check.
    const place = `inside a:${door.port}`;
    const shows = door.port === 22 ? /^HTTP\/1\.1 502 / : new RegExp(`^HTTP/1\\.1 200 [^]*${place}$`);
    expect((await tellWhoCameIn(built, plain(door, OWNER_SHOWS))).answer).toMatch(shows);
    expect(built.reached).toContain(`a:${door.port}`);
    if (door.port !== 22)
      expect((await tellWhoCameIn(built, upgrade(door, OWNER_SHOWS))).answer).toMatch(
        new RegExp(`^HTTP/1\\.1 101 [^]*${place}$`),
      );
    expect((await tellWhoCameIn(built, plain({ host: DOMAIN, path: visitor.mayEnter }, visitor.shows))).answer).toMatch(
      /^HTTP\/1\.1 200 [^]*inside/,
    );
  });
});
