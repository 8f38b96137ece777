/**
 * A quote's ID is the quote itself, signed with a key derived from the secrets key: nothing is
 * stored. Account and body are in it as keyed hashes, so an ID tells nothing about either.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import { canonicalJson } from '../../../domain/kernel/canonical-json.ts';
import type { Micros } from '../../../domain/regions/catalog.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';

const KEY_BYTES = 32;
const MAX_LENGTH = 500;
const FORM = /^([\w-]+)\.([\w-]{43})$/;

export interface QuoteOf {
  accountId: string;
  /** Validated body of the launch. */
  body: unknown;
}

export interface QuoteSigner {
  sign(quote: QuoteOf & { priceMicros: Micros; expiresAtMs: number }): string;
  /** Returns the price. Throws a `Refusal` unless the quote is valid for account and body. */
  priceOf(quoteId: string, quote: QuoteOf, nowMs: number): Micros;
}

const refused = (why: string): Refusal =>
  new Refusal(
    'field_value',
    `the header "X-Berth-Quote" ${why}; ask POST /api/instance/quote with the body of this launch, or leave the header out`,
  );

export function makeQuoteSigner(secretsKey: Uint8Array): QuoteSigner {
  const key = Buffer.from(hkdfSync('sha256', secretsKey, '', 'quotes of launches', KEY_BYTES));
  const mac = (text: string): Buffer => createHmac('sha256', key).update(text).digest();
  const tag = (kind: string, text: string): string => mac(`${kind} ${text}`).toString('base64url');
  const tagsOf = ({ accountId, body }: QuoteOf): [string, string] => [
    tag('account', accountId),
    tag('body', canonicalJson(body)),
  ];

  return {
    sign({ priceMicros, expiresAtMs, ...of }) {
      const text = [expiresAtMs, priceMicros, ...tagsOf(of)].join(' ');
      return `${Buffer.from(text).toString('base64url')}.${tag('quote', text)}`;
    },

    priceOf(quoteId, of, nowMs) {
      const [, payload = '', signature = ''] = (quoteId.length <= MAX_LENGTH && FORM.exec(quoteId)) || [];
      const text = Buffer.from(payload, 'base64url').toString();
      if (payload === '' || !timingSafeEqual(mac(`quote ${text}`), Buffer.from(signature, 'base64url')))
        throw refused('is no quote of this server, or was changed');
      const [expiresAt, price, account, body] = text.split(' ');
      const [ofAccount, ofBody] = tagsOf(of);
      if (account !== ofAccount) throw refused('has a quote of another account');
      if (body !== ofBody) throw refused('has a quote of another launch: its body differs from this one');
      const expiresAtMs = Number(expiresAt);
      if (nowMs < expiresAtMs) return BigInt(price ?? '');
      throw new Refusal(
        'not_now',
        `the quote of the header "X-Berth-Quote" expired at ${new Date(expiresAtMs).toISOString()}; ask POST /api/instance/quote for another, or leave the header out`,
      );
    },
  };
}
