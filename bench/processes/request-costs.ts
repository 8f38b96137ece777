/**
 * What each request pays at the edge: the check of its token, and its rate limits. The code of the
 * server, with a store on disk; a round alternates it with node:crypto's verification.
 */
import { createPublicKey, randomBytes, verify } from 'node:crypto';
import { join } from 'node:path';
import fastify, { type FastifyReply } from 'fastify';
import { z } from 'zod';
import { makeCallers } from '../../src/control/access/callers.ts';
import { uuidFrom } from '../../src/control/access/random.ts';
import { makeSigningRing } from '../../src/control/access/signing-ring.ts';
import { makeTokens } from '../../src/control/access/tokens.ts';
import { makeSeal } from '../../src/control/kernel/seal.ts';
import { realTime } from '../../src/control/kernel/time.ts';
import { makeAddressMatcher } from '../../src/edge/address-list.ts';
import { presentedCredential } from '../../src/edge/http/credentials.ts';
import { makeRequestRates } from '../../src/edge/http/request-rates.ts';
import { openStore } from '../../src/store/open.ts';
import { insertAccount } from '../../src/store/tables/accounts.ts';
import { insertSession } from '../../src/store/tables/sessions.ts';
import { signingKeysSince } from '../../src/store/tables/signing-keys.ts';
import { answerAsks, settingsOf } from '../lib/child.ts';
import { median } from '../lib/numbers.ts';
import { quietLog } from '../lib/settings.ts';

const BATCHES = 50;
const TOKENS_EACH = 20;
const CHECKS_EACH = 2_000;
/** Below the bound of the limiter, so that each principal keeps its bucket. */
const PRINCIPALS = 40_000;
const UNREACHED_RATE = 1e9;

const { folder } = settingsOf(z.object({ folder: z.string() }));
const time = realTime;
const store = await openStore({ file: join(folder, `request-costs-${process.pid}.db`), log: quietLog });
const ring = makeSigningRing({ store, time, randomBytes, seal: makeSeal({ key: randomBytes(32), randomBytes }) });
const tokens = makeTokens({ ring, issuer: 'bench', audience: 'bench', time });

/** Tokens of one login each. */
async function makeLogins(count: number): Promise<string[]> {
  const accountId = uuidFrom(randomBytes);
  const logins = await Promise.all(
    Array.from({ length: count }, async () => {
      const sessionId = uuidFrom(randomBytes);
      return { sessionId, ...(await tokens.sign({ accountId, sessionId, roles: ['user'] })) };
    }),
  );
  const atMs = time.now();
  await store.write(async (tx) => {
    await insertAccount(tx, {
      id: accountId,
      username: 'bench',
      email: '',
      passwordHash: '',
      createdAtMs: atMs,
      roles: '["user"]',
      disabled: 0,
    });
    for (const { sessionId, expiresAtMs } of logins)
      await insertSession(tx, {
        id: sessionId,
        accountId,
        createdAtMs: atMs,
        expiresAtMs,
        revokedAtMs: null,
        address: '127.0.0.1',
        userAgent: 'bench',
        // No request writes the time of its use.
        lastUsedAtMs: atMs + expiresAtMs,
      });
  });
  return logins.map(({ token }) => token);
}

await ring.ensure();
const logins = await makeLogins(BATCHES * TOKENS_EACH);
const [keyRow] = await signingKeysSince(store.read, 0);
const key = createPublicKey({ key: JSON.parse(keyRow?.publicJwk ?? ''), format: 'jwk' });
const headersOf = (token: string) => ({ authorization: `Bearer ${token}` });

/** Median CPU microseconds of a call over the batches, of all threads. */
async function microseconds(calls: number, batch: (index: number) => Promise<void> | void): Promise<number> {
  const took: number[] = [];
  for (let index = 0; index < BATCHES; index += 1) {
    const before = process.cpuUsage();
    await batch(index);
    const { user, system } = process.cpuUsage(before);
    took.push((user + system) / calls);
  }
  return median(took);
}

const tokensOf = (index: number): string[] => logins.slice(index * TOKENS_EACH, (index + 1) * TOKENS_EACH);

function verifyByCrypto(token: string): void {
  const end = token.lastIndexOf('.');
  if (!verify(null, Buffer.from(token.slice(0, end)), key, Buffer.from(token.slice(end + 1), 'base64url')))
    throw new Error('node:crypto refused a valid token');
}

async function timeTokens() {
  const callers = makeCallers({ store, time, tokens, log: quietLog });
  const authenticate = (headers: { authorization: string }) =>
    callers.authenticate(presentedCredential(headers).credential);
  const cryptoUs = await microseconds(TOKENS_EACH, (index) => {
    for (const token of tokensOf(index)) verifyByCrypto(token);
  });
  const signatureUs = await microseconds(TOKENS_EACH, async (index) => {
    for (const token of tokensOf(index)) if (!(await tokens.verify(token))) throw new Error('a token was refused');
  });
  const newUs = await microseconds(TOKENS_EACH, async (index) => {
    for (const token of tokensOf(index)) await authenticate(headersOf(token));
  });
  const headers = headersOf(logins[0] ?? '');
  const knownUs = await microseconds(CHECKS_EACH, async () => {
    for (let n = 0; n < CHECKS_EACH; n += 1) await authenticate(headers);
  });
  return { cryptoUs, signatureUs, newUs, knownUs };
}

const addressOf = (n: number): string => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;
const principals = Array.from({ length: PRINCIPALS }, (_, n) => ({
  accountId: uuidFrom(randomBytes),
  address: addressOf(n),
}));

/** Both limits of a request, on a reply of Fastify. */
async function timeRates(reply: FastifyReply) {
  const timeOver = async (count: number): Promise<number> => {
    const rates = makeRequestRates({
      perAddress: UNREACHED_RATE,
      perAccount: () => UNREACHED_RATE,
      isProxy: makeAddressMatcher(['127.0.0.1']),
    });
    const take = (n: number): void => {
      const { accountId = '', address = '' } = principals[n % count] ?? {};
      rates.takeOfAddress(address, reply);
      rates.takeOfAccount(accountId, 1, reply);
    };
    for (let n = 0; n < PRINCIPALS; n += 1) take(n);
    return microseconds(CHECKS_EACH, (index) => {
      for (let n = 0; n < CHECKS_EACH; n += 1) take(index * CHECKS_EACH + n);
    });
  };
  return { oneUs: await timeOver(1), manyUs: await timeOver(PRINCIPALS) };
}

const app = fastify();
app.get('/', async (_request, reply) => timeRates(reply));

answerAsks(
  async () => ({ ...(await timeTokens()), ...(await app.inject('/')).json<Record<string, number>>() }),
  async () => {
    await app.close();
    await store.stop();
  },
);
