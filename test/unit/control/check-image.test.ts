/** Checks of an image over regions whose engines answer differently. */
import { expect, test } from 'vitest';
import { makeCheckImage } from '../../../src/control/regions/images/check-image.ts';
import { EngineFault, type FaultReason } from '../../../src/domain/regions/engine-fault.ts';
import { regionId } from '../../../src/domain/kernel/ids.ts';
import { makeSimulatedEngine } from '../../../src/engines/simulated/simulated.ts';
import { makeDrivers } from '../../fixtures/control-deps.ts';

const fault = (text: string, reason: FaultReason) => async (): Promise<false> => {
  throw new EngineFault('rejected', text, { retry: false, reason });
};
const engines = {
  fits: async () => ({ digest: 'sha256:1' }),
  unable: async (): Promise<false> => false,
  away: fault('the registry does not answer', 'registryAway'),
  missing: fault('no such image', 'imageMissing'),
  denied: fault('not granted', 'imageDenied'),
  unfit: fault('for other processors', 'imageUnfit'),
};
type Kind = keyof typeof engines | 'silent';

async function check(kinds: readonly Kind[], ref: string) {
  const drivers = kinds.map((kind, at) => {
    const engine = makeSimulatedEngine({ installation: 'i-1' });
    if (kind !== 'silent') engine.checkImage = engines[kind];
    const health = { probe: null, answers: kind !== 'silent', text: '' };
    return makeDrivers({ regionId: regionId(`r-${at}`), engine, health, pool: { storage: undefined as never } });
  });
  return checkerOf(drivers, (ms) => AbortSignal.timeout(ms))(undefined, ref);
}

const checkerOf = (drivers: readonly unknown[], deadline: (ms: number) => AbortSignal) =>
  makeCheckImage({
    regions: { all: () => drivers } as never,
    time: { deadline } as never,
    limits: { imageCheckMs: 10_000 },
    credentialsFor: async () => undefined,
  });

const unchecked = (why: RegExp, isFinal = false) => ({
  kind: 'unchecked',
  why: expect.stringMatching(why),
  ...(isFinal ? { isFinal } : {}),
});
const fits = { kind: 'fits', digest: 'sha256:1' };
const refused = (why: RegExp) => ({ kind: 'refused', why: expect.stringMatching(why) });

test.for<{ kinds: Kind[]; is: object; ref?: string }>([
  { kinds: ['unable'], is: unchecked(/^no engine of a region can ask/, true) },
  { kinds: ['unable', 'fits'], is: fits },
  { kinds: ['fits', 'unfit'], is: fits },
  { kinds: ['unable', 'missing'], is: refused(/^no such image/) },
  { kinds: ['silent', 'denied'], is: refused(/^not granted/) },
  { kinds: ['unable', 'unfit'], is: unchecked(/^for other processors$/, true) },
  { kinds: ['silent', 'unfit'], is: unchecked(/^the container engine does not answer; for other processors$/) },
  { kinds: ['unfit', 'unfit'], is: refused(/^for other processors$/) },
  { kinds: ['unable', 'away'], is: unchecked(/^the registry does not answer$/) },
  { kinds: ['missing', 'unable'], ref: '127.0.0.1:5000/app:1', is: unchecked(/^no such image/, true) },
  { kinds: ['missing', 'missing'], ref: '127.0.0.1:5000/app:1', is: refused(/^no such image/) },
  { kinds: [], is: unchecked(/^no engine/, true) },
])('regions that say $kinds: $is.kind', async ({ kinds, is, ref = 'registry.example.org/app:1' }) => {
  for (const ordered of [kinds, kinds.toReversed()]) {
    const found = await check(ordered, ref);
    if ('why' in found) found.why = found.why.split('; ').toSorted().reverse().join('; ');
    expect(found).toEqual(is);
  }
});

test('one account cannot keep the checks of another waiting, and its own say why they were not made', async () => {
  const engine = makeSimulatedEngine({ installation: 'i-1' });
  const asked: string[] = [];
  engine.checkImage = (ref, signal) => {
    asked.push(ref);
    return ref === 'good'
      ? Promise.resolve({ digest: 'sha256:1' })
      : new Promise((_, reject) => signal.addEventListener('abort', reject));
  };
  const health = { probe: null, answers: true, text: '' };
  const drivers = [makeDrivers({ regionId: regionId('r'), engine, health, pool: { storage: undefined as never } })];
  const over = new AbortController();
  const checkImage = checkerOf(drivers, () => over.signal);
  const silent = Array.from({ length: 24 }, (_, at) => checkImage('mallory', `silent-${at}`));
  expect(await checkImage('ann', 'good')).toEqual(fits);
  expect(asked).toEqual(['silent-0', 'silent-1', 'good']);
  over.abort();
  const [first, second, ...rest] = await Promise.all(silent);
  for (const one of [first, second]) expect(one).toEqual(unchecked(/^the registry did not answer within 10 s$/));
  for (const one of rest) expect(one).toEqual(unchecked(/^too many checks of your images are under way$/));
});
