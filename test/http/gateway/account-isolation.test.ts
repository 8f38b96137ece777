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
  protectedTargets,
  exchange,
  startTwoAccountGateway,
  nowhere,
  OWNER_CREDENTIALS,
  plain,
  upgrade,
  visitors,
} from './access-matrix.ts';
import type { TwoAccountGateway } from './access-matrix.ts';
import { bypassAttempts } from './bypass-attempts.ts';

const withoutIds = (answer: string | null): string | undefined =>
  answer
    ?.replaceAll(A, NEVER)
    .replaceAll(A.toUpperCase(), NEVER.toUpperCase())
    .replaceAll(/^date:.*$/gim, '');

async function exchangeAndReach(
  { harness, reached }: TwoAccountGateway,
  bytes: string | readonly string[],
): Promise<{ answer: string | null; reachedPorts: string[] }> {
  reached.length = 0;
  const answer = await exchange(harness.port, bytes);
  return { answer, reachedPorts: [...reached] };
}

test('the bypass attempts are complete and have unique names', () => {
  expect(new Set(bypassAttempts.map(({ name }) => name)).size).toBe(bypassAttempts.length);
  expect(bypassAttempts.length).toBeGreaterThanOrEqual(380);
});

describe.each(protectedTargets)('$name', (target) => {
  const visitorsWithoutAccess = visitors.filter(({ isAccount }) => !(isAccount && target.forAccounts));

  test.each(visitorsWithoutAccess)('is closed to $name', async (visitor) => {
    // Level short: each attempt runs once per address, with alternating visitors.
    const visitorCount = visitorsWithoutAccess.length;
    const attemptsOfVisitor = sampled(bypassAttempts, {
      oneIn: visitorCount,
      from: visitorsWithoutAccess.indexOf(visitor),
    });
    const built = await startTwoAccountGateway();
    const closed = closedTo(visitor);
    const wrong: string[] = [];
    let tried = 0;
    for (const { name, bytes, owner = 0 } of attemptsOfVisitor) {
      const sent = bytes(target, visitor.auth);
      if (sent === null) continue;
      tried += 1;
      const { answer, reachedPorts } = await exchangeAndReach(built, sent);
      const reported = [...(answer ?? '').matchAll(/inside (\w+:\d+)/g)].map(([, label]) => label ?? '');
      const reachedCount = reported.filter((label) => closed.includes(label)).length;
      if (answer === null) wrong.push(`${name}: no end`);
      else if (reachedCount > owner) wrong.push(`${name}: reached ${reported.join()}`);
      else if (owner === 0 && reachedPorts.some((label) => closed.includes(label)))
        wrong.push(`${name}: reached ${reachedPorts.join()}`);
      // Her public port is no secret.
      else if (owner === 0 && visitor.isCompared && !reported.includes('a:80')) {
        const elsewhere = await exchange(built.harness.port, bytes(nowhere(target), visitor.auth) ?? '');
        if (withoutIds(elsewhere) !== withoutIds(answer))
          wrong.push(`${name}: tells that it is there: ${answer.slice(0, 300)}`);
      }
    }
    expect(wrong).toEqual([]);
    expect(tried).toBeGreaterThan(atLevel({ short: 330 / visitorCount / 2, long: 330 }));
    // Control check.
    const label = `inside a:${target.port}`;
    const expectedAnswer = target.port === 22 ? /^HTTP\/1\.1 502 / : new RegExp(`^HTTP/1\\.1 200 [^]*${label}$`);
    expect((await exchangeAndReach(built, plain(target, OWNER_CREDENTIALS))).answer).toMatch(expectedAnswer);
    expect(built.reached).toContain(`a:${target.port}`);
    if (target.port !== 22)
      expect((await exchangeAndReach(built, upgrade(target, OWNER_CREDENTIALS))).answer).toMatch(
        new RegExp(`^HTTP/1\\.1 101 [^]*${label}$`),
      );
    expect(
      (await exchangeAndReach(built, plain({ host: DOMAIN, path: visitor.mayEnter }, visitor.auth))).answer,
    ).toMatch(/^HTTP\/1\.1 200 [^]*inside/);
  });
});
