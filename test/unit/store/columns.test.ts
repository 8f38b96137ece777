/** An instance's columns: the round trip, and errors that name an unreadable column. */
import { expect, test } from 'vitest';
import { decodeColumn, insertColumns, reconcileColumns } from '../../../src/store/tables/instance-columns.ts';
import { keysOf } from '../../../src/store/db/columns.ts';
import { anInstance } from '../domain/instance-fixture.ts';
import { aRegion } from '../../fixtures/region.ts';

const region = aRegion();

test('reads every member of an instance as written', () => {
  const archive = { ref: 'saved:1', sizeBytes: 5, generation: 1, replaces: ['saved:0'] };
  const instance = anInstance({ archive, filesStale: true, initExit: 0 });
  const row = insertColumns(instance, region);
  for (const member of keysOf(instance))
    expect(decodeColumn(member, row[member], instance.id), member).toEqual(instance[member]);
});

test('a reconcile writes neither the spec nor separately set columns', () => {
  const written = reconcileColumns(anInstance(), region);
  for (const name of ['id', 'spec', 'stopPolicy', 'filesStale', 'diskUsage']) expect(written).not.toHaveProperty(name);
  expect(written).toMatchObject({ generation: 1, status: 'Initializing' });
});

test.each([
  ['{', 'the text is not JSON'],
  ['{}', 'at "stopAtMs": Invalid input'],
])('refuses a stop policy of %j with table, row and column', (text, why) => {
  expect(() => decodeColumn('stopPolicy', text, 'notebook-1')).toThrow(
    `The column "stopPolicy" of instance notebook-1 cannot be read: ${why}`,
  );
});

test('refuses an unknown desired state', () => {
  expect(() => decodeColumn('desired', 'asleep', 'notebook-1')).toThrow('The column "desired" of instance notebook-1');
});
