/** Docker runs the whole conformance suite. */
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { conformanceGroups } from '../../conformance/engine.ts';

test('each group of the conformance suite has a test file for Docker', () => {
  const files = readdirSync(path.join(import.meta.dirname, '../../docker/engines'));
  const groups = files.flatMap((file) => /^docker-conformance-(\w+)\.test\.ts$/.exec(file)?.[1] ?? []);
  expect(groups.toSorted()).toEqual(Object.keys(conformanceGroups).toSorted());
});
