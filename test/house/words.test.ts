/** Bounds on the language of src, in the numbers of `npm run words`. Each may only get smaller. */
import path from 'node:path';
import { expect, test } from 'vitest';
import { measure } from '../../scripts/words.mjs';

const bounds = { pronounsPercent: 6, bareOpeningsPercent: 5, commentLinesPercent: 8 };

test('comments of src stay short and plain', () => {
  const total = measure([path.join(import.meta.dirname, '../../src')]);
  const measured = {
    pronounsPercent: (100 * total.pronouns) / total.words,
    bareOpeningsPercent: (100 * total.bareOpenings) / total.comments,
    commentLinesPercent: (100 * total.commentLines) / total.lines,
  };
  console.log(
    `src: ${measured.pronounsPercent.toFixed(1)} % pronouns, ${measured.bareOpeningsPercent.toFixed(1)} % bare openings, ` +
      `${measured.commentLinesPercent.toFixed(1)} % comment lines`,
  );
  expect(measured.pronounsPercent).toBeLessThanOrEqual(bounds.pronounsPercent);
  expect(measured.bareOpeningsPercent).toBeLessThanOrEqual(bounds.bareOpeningsPercent);
  expect(measured.commentLinesPercent).toBeLessThanOrEqual(bounds.commentLinesPercent);
});
