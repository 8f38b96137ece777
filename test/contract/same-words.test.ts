import { expect, test } from 'vitest';
import { fileKinds } from '../../src/contract/file.ts';
import { actions, chargeModes, instanceStatuses } from '../../src/contract/instance.ts';
import { errorCodes } from '../../src/contract/errors.ts';
import { strayHandlings, strayKinds } from '../../src/contract/stray.ts';
import { operationKinds, operationStates, stageNames } from '../../src/contract/operation.ts';
import { volumeTypes } from '../../src/contract/volume.ts';
import * as catalog from '../../src/domain/catalog.ts';
import * as filePath from '../../src/domain/file-path.ts';
import * as states from '../../src/domain/instance-states.ts';
import * as operations from '../../src/domain/operation.ts';
import { refusalCodes } from '../../src/domain/refusal.ts';
import * as stray from '../../src/domain/stray.ts';
import * as volume from '../../src/domain/volume.ts';

test('what crosses the wire and what is true use the same words', () => {
  expect(chargeModes).toEqual(catalog.chargeModes);
  expect(instanceStatuses).toEqual(states.instanceStatuses);
  expect(actions).toEqual(states.actions);
  expect(operationKinds).toEqual(operations.operationKinds);
  expect(operationStates).toEqual(operations.operationStates);
  expect(stageNames).toEqual(operations.stageNames);
  expect(volumeTypes).toEqual(volume.volumeTypes);
  expect(fileKinds).toEqual(filePath.fileKinds);
  expect(strayKinds).toEqual(stray.strayKinds);
  expect(strayHandlings).toEqual(stray.strayHandlings);
  for (const code of refusalCodes) expect(errorCodes).toContain(code);
});
