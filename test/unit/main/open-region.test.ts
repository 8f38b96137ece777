/** Regions that open: what the log says of their settings. */
import { expect, test } from 'vitest';
import { warnOfTrustedInstances } from '../../../src/main/open-region.ts';

test('warns of trusted proxies among the addresses of instances', () => {
  const warned = (trustedProxies: string[], podRanges: string[]): unknown[] => {
    const facts: unknown[] = [];
    const quiet = () => {};
    const log = { debug: quiet, info: quiet, error: quiet, warn: (one: unknown) => facts.push(one) };
    warnOfTrustedInstances({ trustedProxies }, podRanges, log);
    return facts;
  };
  expect(warned(['10.244.3.0/24', '192.0.2.1'], ['10.244.0.0/16'])).toEqual([{ ranges: ['10.244.3.0/24'] }]);
  expect(warned(['192.0.2.1'], ['10.244.0.0/16', 'fd00::/64'])).toEqual([]);
  expect(warned(['fd00::/48'], ['10.244.0.0/16', 'fd00::/64'])).toEqual([{ ranges: ['fd00::/48'] }]);
});
