/** Checks of an image over regions whose engines answer differently. */
import { expect, test } from 'vitest';
import { makeCheckImage } from '../../../src/control/images/check-image.ts';
import { EngineFault, type FaultReason } from '../../../src/domain/engine-fault.ts';
import { regionId } from '../../../src/domain/ids.ts';
import { makeSimulatedEngine } from '../../../src/engines/simulated/simulated.ts';
import { makeDrivers } from '../../fixtures/control-deps.ts';

const fault = (text: string, reason: FaultReason) => async (): Promise<boolean> => {
  throw new EngineFault('rejected', text, { retry: false, reason });
};
const engines = {
  fits: async () => true,
  unable: async () => false,
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
  const checkImage = makeCheckImage({
    regions: { all: () => drivers } as never,
    time: { deadline: (ms: number) => AbortSignal.timeout(ms) } as never,
    limits: { imageCheckMs: 10_000 },
    credentialsFor: async () => undefined,
  });
  return checkImage(undefined, ref);
}

const unchecked = (why: RegExp, isFinal = false) => ({
  kind: 'unchecked',
  why: expect.stringMatching(why),
  ...(isFinal ? { isFinal } : {}),
});
const refused = (why: RegExp) => ({ kind: 'refused', why: expect.stringMatching(why) });

test.for<{ kinds: Kind[]; is: object; ref?: string }>([
  { kinds: ['unable'], is: unchecked(/^no engine of a region can ask/, true) },
  { kinds: ['unable', 'fits'], is: { kind: 'fits' } },
  { kinds: ['fits', 'unfit'], is: { kind: 'fits' } },
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
