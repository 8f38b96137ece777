import { expect, test } from 'vitest';
import { makeQuoteSigner } from '../../../src/control/compute/quotes/quote-signature.ts';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';

const signer = makeQuoteSigner(new Uint8Array(32).fill(1));
const of = { accountId: 'ann', body: { name: 'a', ports: [1, 2], billing: { chargeMode: 'perHour', duration: 1 } } };
const END = 1_000_000;
const quoteId = signer.sign({ ...of, priceMicros: 123n, expiresAtMs: END });

const refusal = (run: () => unknown): { code: string; message: string } => {
  try {
    run();
  } catch (error) {
    if (error instanceof Refusal) return { code: error.code, message: error.message };
    throw error;
  }
  throw new Error('it was not refused');
};

test('holds the price until its end, for the same content in any order', () => {
  const body = { billing: { duration: 1, chargeMode: 'perHour' }, ports: [1, 2], name: 'a' };
  expect(signer.priceOf(quoteId, { ...of, body }, END - 1)).toBe(123n);
  expect(refusal(() => signer.priceOf(quoteId, of, END))).toMatchObject({
    code: 'not_now',
    message: expect.stringMatching(/expired at 1970-01-01T00:16:40.000Z; ask POST \/api\/instance\/quote/),
  });
});

test('refuses another account, another body, and another key', () => {
  expect(refusal(() => signer.priceOf(quoteId, { ...of, accountId: 'ben' }, 0))).toMatchObject({
    code: 'field_value',
    message: expect.stringMatching(/another account/),
  });
  expect(refusal(() => signer.priceOf(quoteId, { ...of, body: { ...of.body, ports: [2, 1] } }, 0))).toMatchObject({
    code: 'field_value',
    message: expect.stringMatching(/body differs/),
  });
  const other = makeQuoteSigner(new Uint8Array(32).fill(2));
  expect(refusal(() => other.priceOf(quoteId, of, 0)).message).toMatch(/no quote of this server/);
});

test('refuses each changed character, and what is no quote', () => {
  const changed = Array.from(
    quoteId,
    (letter, at) => quoteId.slice(0, at) + (letter === 'x' ? 'y' : 'x') + quoteId.slice(at + 1),
  );
  const [payload = '', signature = ''] = quoteId.split('.');
  const cheap = Buffer.from(payload, 'base64url').toString().replace(' 123 ', ' 1 ');
  const forged = [
    `${Buffer.from(cheap).toString('base64url')}.${signature}`,
    '',
    '.',
    payload,
    `${payload}.`,
    `.${signature}`,
    'x'.repeat(10_000),
    `${quoteId}\n`,
  ];
  for (const wrong of [...changed, ...forged]) {
    if (
      Buffer.from(wrong.split('.')[1] ?? '', 'base64url').equals(Buffer.from(signature, 'base64url')) &&
      wrong.startsWith(`${payload}.`)
    )
      continue;
    expect([wrong, refusal(() => signer.priceOf(wrong, of, 0)).code]).toEqual([wrong, 'field_value']);
  }
});

test('tells nothing about account and body', () => {
  const text = Buffer.from(quoteId.split('.')[0] ?? '', 'base64url').toString();
  expect(text).not.toMatch(/ann|perHour/);
});
