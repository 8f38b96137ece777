/**
 * Stored texts of instances may change only together with their version, which makes a server
 * rewrite them.
 */
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { regionId, volumeId } from '../../../src/domain/kernel/ids.ts';
import { desiredStates, instanceStatuses } from '../../../src/domain/compute/instance-states.ts';
import { PUBLIC_OBJECT_VERSION, publicInstance } from '../../../src/domain/compute/public-instance.ts';
import { anInstance } from './instance-fixture.ts';
import { aRegion } from '../../fixtures/region.ts';

const region = aRegion({ id: regionId('r') });

/** Every list filled, in every status and desired state: the text depends on nothing else. */
function allTexts(): string[] {
  const base = anInstance({
    nodePorts: [{ port: 22, nodePort: 30_000 }],
    stopPolicy: { stopAtMs: 1_700_000_009_000, maxRunMs: 60_000, idle: null, keepAliveUntilMs: 0 },
  });
  const mount = { mountPath: '/data', volumeId: volumeId('v'), volumeName: 'data', volumeType: 'filesystem' };
  const spec = { ...base.spec, mounts: [mount] };
  return instanceStatuses.flatMap((status) =>
    desiredStates.map((desired) =>
      JSON.stringify(publicInstance({ ...base, spec, desired, observed: { ...base.observed, status } }, region)),
    ),
  );
}

/** Digest per version, from 1 on. Append only, once a version is released. */
const digests = ['b5cebcc78b067650', '0ad2e126b474a6a6', '631b78c1e9db4102'];

test('the public text of instances changes only together with its version', () => {
  const digest = createHash('sha256').update(allTexts().join('\n')).digest('hex').slice(0, 16);
  expect(
    { shape: PUBLIC_OBJECT_VERSION, digest },
    'the texts of instances changed: increment PUBLIC_OBJECT_VERSION and add this digest to the list',
  ).toEqual({ shape: digests.length, digest: digests.at(-1) });
});
