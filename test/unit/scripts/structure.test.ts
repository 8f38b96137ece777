/** `npm run structure`: which folders import which, and the order that the fewest arrows break. */
import { expect, test } from 'vitest';
import { arrowsOf, orderOf } from '../../../scripts/structure.mjs';

test('an arrow is an import of another folder of control, and a circle breaks the order once', () => {
  const arrows = arrowsOf([
    "src/control/a/x.ts:import { b } from '../b/y.ts';",
    "src/control/a/deep/x.ts:import type { B } from '../../b/y.ts';",
    "src/control/a/x.ts:import { own } from './deep/x.ts';",
    "src/control/a/x.ts:import { other } from '../../domain/b/z.ts';",
    "src/control/b/y.ts:export { c } from '../c/z.ts';",
    "src/control/c/z.ts:import { a } from '../a/x.ts';",
    "src/control/d/z.ts:import { a } from '../a/x.ts';",
    "src/control/index.ts:import { a } from './a/x.ts';",
  ]);
  const named = [...arrows].map(([folder, targets]) => `${folder} ${[...targets].join()}`);
  expect(named).toEqual(['a b', 'b c', 'c a', 'd a']);
  expect(orderOf(arrows)).toEqual(['a', 'c', 'b', 'd']);
});
