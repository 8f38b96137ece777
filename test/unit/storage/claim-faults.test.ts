import { expect, test } from 'vitest';
import { errorOfAnswer } from '../../../src/kubernetes/api-error.ts';
import { reasonText } from '../../../src/domain/kernel/unknown-error.ts';
import { EngineFault } from '../../../src/domain/regions/engine-fault.ts';
import { asStorageFault } from '../../../src/storage/claims/claim-faults.ts';
import { withEngineFaults } from '../../../src/storage/volumes/volume-faults.ts';

const count = (text: string, part: string): number => text.split(part).length - 1;

test('a fault of the storage says a refusal of the cluster or of the engine once, with its cause', async () => {
  const message =
    'storageclasses.storage.k8s.io "disk" is forbidden: User "berth" cannot get resource "storageclasses" in API group "storage.k8s.io" at the cluster scope';
  const body = JSON.stringify({ kind: 'Status', reason: 'Forbidden', message });
  const refused = errorOfAnswer({ httpStatus: 403, body, request: 'GET' });
  const text = reasonText(asStorageFault(refused));
  expect(count(text, 'add the verb to its role')).toBe(1);

  const away = new EngineFault('unreachable', 'the engine does not answer', {
    retry: true,
    cause: new Error('ENOENT'),
  });
  const fault: unknown = await withEngineFaults(() => Promise.reject(away)).catch((error: unknown) => error);
  expect(reasonText(fault)).toBe('the engine does not answer (ENOENT)');
});
