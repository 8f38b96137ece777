import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { targetOf } from '../../../src/edge/gateway/routing.ts';
import { instanceIdOf, type InstanceId } from '../../../src/domain/kernel/ids.ts';

const idOf = (digit: string): InstanceId => instanceIdOf(`${digit.repeat(8)}-1111-4111-8111-${digit.repeat(12)}`);
const A = idOf('a');
const B = idOf('b');

describe('an address selects one instance and one port', () => {
  test.each([
    [`/notebook/${A}/`, 8888, `/notebook/${A}`, `/notebook/${A}/`],
    [`/notebook/${A}/lab/tree/a%2Fb?x=1&y=/../`, 8888, `/notebook/${A}`, `/notebook/${A}/lab/tree/a%2Fb?x=1&y=/../`],
    [`/forward/${A}/8000/`, 8000, `/forward/${A}/8000`, '/'],
    [`/forward/${A}/8000/v1/models?a=%2e%2e`, 8000, `/forward/${A}/8000`, '/v1/models?a=%2e%2e'],
    [`/forward/${A}/65535//x//y`, 65535, `/forward/${A}/65535`, '//x//y'],
    [`/forward/${A}/1/.hidden/%2ehidden/...`, 1, `/forward/${A}/1`, '/.hidden/%2ehidden/...'],
  ])('%s', (path, port, prefix, upstreamPath) => {
    expect(targetOf('h', path, null)).toMatchObject({
      kind: 'instance',
      instanceId: A,
      port,
      prefix,
      upstreamPath,
      withSlash: null,
    });
  });

  test('returns the address with a trailing slash and the query', () => {
    expect(targetOf('h', `/notebook/${A}?a=b`, null)).toMatchObject({
      withSlash: `/notebook/${A}/?a=b`,
      upstreamPath: `/notebook/${A}?a=b`,
    });
    expect(targetOf('h', `/forward/${A}/80?a=b`, null)).toMatchObject({
      withSlash: `/forward/${A}/80/?a=b`,
      upstreamPath: '/?a=b',
    });
  });

  test.each([
    '/',
    '/notebook',
    '/notebook/',
    `/notebook/${A}x/`,
    `/notebook/${A.toUpperCase()}/`,
    `/notebook/${A.slice(0, -1)}/`,
    `/notebook//${A}/`,
    `//notebook/${A}/`,
    `/notebook%2F${A}/`,
    `/notebook/${A}%2F..%2F${B}/`,
    `/Notebook/${A}/`,
    `/forward/${A}`,
    `/forward/${A}/`,
    `/forward/${A}/0/`,
    `/forward/${A}/080/`,
    `/forward/${A}/65536/`,
    `/forward/${A}/8000x/`,
    `/forward/${A}/+80/`,
    `/forward/${A}/80%30/`,
    `/forward/${A}//8000/`,
    `/forward/${A}?/8000/`,
    '/openx?key=a',
  ])('%s leads to no instance', (path) => {
    expect(targetOf('h', path, null).kind).toBe('unknown');
  });

  test.each([
    `/notebook/${A}/../${B}/`,
    `/notebook/${A}/%2e%2e/${B}/`,
    `/notebook/${A}/.%2E/${B}/`,
    `/notebook/${A}/x/..`,
    `/notebook/./${A}/`,
    `/forward/${A}/80/..?x`,
    `/notebook/${A}\\..\\${B}/`,
    `/notebook/${A}/#x`,
    `/notebook/${A}/ x`,
    `http://elsewhere/notebook/${A}/`,
    '*',
    'host:443',
    '',
  ])('%s is refused', (path) => {
    expect(targetOf('h', path, null)).toMatchObject({ kind: 'refused' });
  });
});

const piece = fc.oneof(
  fc.constantFrom(
    '/',
    '//',
    '.',
    '..',
    '%2e',
    '%2E%2e',
    '%2f',
    '%5c',
    '\\',
    ';',
    '?',
    '#',
    '@',
    ':',
    '%00',
    '%',
    '&',
    '=',
    'x',
  ),
  fc.constantFrom(
    A,
    B,
    'notebook',
    'forward',
    'open',
    '80',
    '8888',
    '/notebook/',
    '/forward/',
    `/notebook/${A}`,
    `/forward/${A}/80`,
  ),
  fc.string({ maxLength: 4 }),
);
const beginning = fc.constantFrom(`/notebook/${A}`, `/forward/${A}/80`, `/notebook/`, `/forward/`, '/');
const hostilePath = fc
  .tuple(beginning, fc.array(piece, { maxLength: 10 }))
  .map(([begin, pieces]) => begin + pieces.join(''));

test('agrees with URL parsers on instance and port', () => {
  let found = 0;
  fc.assert(
    fc.property(hostilePath, (path) => {
      const target = targetOf('h', path, null);
      if (target.kind !== 'instance') return;
      found += 1;
      expect(path.startsWith(target.prefix)).toBe(true);
      expect(target.upstreamPath.startsWith('/')).toBe(true);
      // Resolves paths like browsers and proxies.
      const resolved = new URL(`http://h${path}`).pathname;
      expect(resolved === target.prefix || resolved.startsWith(`${target.prefix}/`)).toBe(true);
      expect(targetOf('h', resolved, null)).toMatchObject({
        instanceId: target.instanceId,
        port: target.port,
        mount: target.mount,
      });
    }),
    { numRuns: 20_000 },
  );
  expect(found).toBeGreaterThan(1_000);
});

test('forwards the path below the prefix unchanged', () => {
  const segment = fc.stringMatching(/^[A-Za-z0-9~!$&'()*+,;=:@%-]{1,12}$/);
  fc.assert(
    fc.property(fc.array(segment, { maxLength: 6 }), fc.nat({ max: 65_534 }), (segments, port) => {
      const rest = `/${segments.join('/')}`;
      expect(targetOf('h', `/forward/${B}/${port + 1}${rest}`, null)).toMatchObject({
        instanceId: B,
        port: port + 1,
        upstreamPath: rest,
      });
      expect(targetOf('h', `/notebook/${B}${rest}`, null)).toMatchObject({
        instanceId: B,
        upstreamPath: `/notebook/${B}${rest}`,
      });
    }),
  );
});
