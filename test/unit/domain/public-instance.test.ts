import fc from 'fast-check';
import { expect, test } from 'vitest';
import { instance as instanceSchema } from '../../../src/contract/compute/instance.ts';
import { chargeModes } from '../../../src/domain/regions/catalog.ts';
import { instanceStatuses, phases, diagnoses, type Diagnosis } from '../../../src/domain/compute/instance-states.ts';
import type { Instance } from '../../../src/domain/compute/instance.ts';
import { imageId, instanceIdOf, instanceTypeId, userId, volumeId } from '../../../src/domain/kernel/ids.ts';
import { publicInstance } from '../../../src/domain/compute/public-instance.ts';
import { anInstance } from './instance-fixture.ts';
import { aRegion } from '../../fixtures/region.ts';

const region = aRegion();

const text = fc.string({ unit: 'grapheme' });
const wholeGB = fc.integer({ min: 0, max: 100_000 });
const reasons = Object.keys(diagnoses) as Diagnosis[];

const instances: fc.Arbitrary<Instance> = fc
  .record({
    id: fc.uuid().map(instanceIdOf),
    ownerId: fc.uuid().map(userId),
    createdAtMs: fc.nat(2 ** 45),
    name: text,
    image: fc.record({
      id: fc.uuid().map(imageId),
      name: text,
      ref: text,
      architecture: text,
      isPublic: fc.boolean(),
      tags: fc.array(text),
      type: text,
    }),
    type: fc.record({
      id: fc.uuid().map(instanceTypeId),
      name: text,
      isSpot: fc.boolean(),
      cpuCores: fc.double({ min: 0.001, max: 1_000, noNaN: true }),
      cpuType: text,
      memoryGB: fc.double({ min: 0.001, max: 10_000, noNaN: true }),
      gpuCount: fc.nat(16),
      gpuName: text,
      rootDiskGB: wholeGB,
      dataDiskGB: wholeGB,
    }),
    chargeMode: fc.constantFrom(...chargeModes),
    duration: fc.integer({ min: 1, max: 120 }),
    mounts: fc.array(
      fc.record({ mountPath: text, volumeId: fc.uuid().map(volumeId), volumeName: text, volumeType: text }),
    ),
    extraDataDiskGB: wholeGB,
    flags: fc.tuple(fc.boolean(), fc.boolean(), fc.boolean()),
    priceMicros: fc.bigInt({ min: 0n, max: 10n ** 15n }),
    nodePorts: fc.array(fc.record({ port: fc.integer({ min: 1, max: 65_535 }), nodePort: fc.nat(65_535) })),
    observed: fc.record({
      status: fc.constantFrom(...instanceStatuses),
      phase: fc.constantFrom(...phases),
      diagnosis: fc.constantFrom(...reasons),
      diagnosisMessage: text,
      message: text,
      healthy: fc.boolean(),
      stoppedAtMs: fc.nat(2 ** 45),
      runningSinceMs: fc.nat(2 ** 45),
      runStartedAtMs: fc.nat(2 ** 45),
      ending: fc.constant(null),
      lostGpu: fc.constant(null),
      memoryKills: fc.constant(null),
      countedFromMs: fc.nat(2 ** 45),
      answersBy: fc.constantFrom('ssh', 'notebook', 'nothing'),
      sshFront: fc.boolean(),
      initFailure: fc.constant(''),
      startExit: fc.constant(null),
      imageNote: fc.string(),
      startFailure: fc.constant(''),
      notebook: fc.constant(null),
      progress: fc.constant(null),
    }),
  })
  .map(
    ({
      id,
      ownerId,
      createdAtMs,
      name,
      image,
      type,
      chargeMode,
      duration,
      mounts,
      extraDataDiskGB,
      flags,
      priceMicros,
      nodePorts,
      observed,
    }) => {
      const base = anInstance({ id, ownerId, createdAtMs, priceMicros, nodePorts, observed });
      const [enableCommonData, enableDocker, isSpot] = flags;
      return {
        ...base,
        spec: {
          ...base.spec,
          name,
          image,
          type,
          chargeMode,
          duration,
          mounts,
          extraDataDiskGB,
          enableCommonData,
          enableDocker,
          isSpot,
        },
      };
    },
  );

test('matches the schema of the interface for every instance, also after a JSON round trip', () => {
  fc.assert(
    fc.property(instances, (one) => {
      const shown = publicInstance(one, region);
      const parsed: unknown = JSON.parse(JSON.stringify(shown));
      expect(instanceSchema.parse(parsed)).toEqual(shown);
    }),
  );
});

test('shows node ports and their address only while Running', () => {
  fc.assert(
    fc.property(instances, (one) => {
      const { nodePorts } = publicInstance(one, region).instanceSpecInfo;
      const expected = one.nodePorts.map(({ port, nodePort }) =>
        one.observed.status === 'Running'
          ? { port, address: '192.0.2.1', nodePort }
          : { port, address: '', nodePort: 0 },
      );
      expect(nodePorts).toEqual(expected);
    }),
  );
});

test("adds the requested extra size to the type's data disk", () => {
  const base = anInstance();
  const shown = publicInstance({ ...base, spec: { ...base.spec, extraDataDiskGB: 30 } }, region);
  expect(shown.instanceSpecInfo.instanceConfiguration.InstanceDiskAmountRequest).toEqual({
    rootDiskAmountGiReq: 20,
    dataDiskAmountGiReq: 50,
  });
  expect(shown.instanceRuntimeInfo.instanceDiskAmountInfo).toEqual({ rootDiskAmountGi: 20, dataDiskAmountGi: 50 });
  expect(shown.instanceSpecInfo.instanceBillingInfo).toEqual({
    chargeMode: 'perHour',
    duration: 1,
    price: 0.02,
    unit: '$',
    type: 'On-Demand',
  });
});
