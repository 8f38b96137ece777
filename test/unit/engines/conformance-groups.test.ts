/** Docker and Kubernetes run the whole conformance suite. */
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { conformanceGroups } from '../../conformance/engine.ts';

test.for([
  ['docker', 'docker/engines'],
  ['kubernetes', 'kubernetes/engine'],
] as const)('each group of the conformance suite has a test file for %s', ([name, folder]) => {
  const files = readdirSync(path.join(import.meta.dirname, '../..', folder));
  const groups = files.flatMap((file) => new RegExp(`^${name}-conformance-(\\w+)\\.test\\.ts$`).exec(file)?.[1] ?? []);
  expect(groups.toSorted()).toEqual(Object.keys(conformanceGroups).toSorted());
});
