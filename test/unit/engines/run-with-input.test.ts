/** Programs of the host that read rules from stdin. */
import { expect, test } from 'vitest';
import { runWithInput } from '../../../src/engines/docker/network/run-with-input.ts';

const rules = 'x'.repeat(4_000_000);
const soon = { timeout: 10_000 };

test('a program that ends before it has read its input fails by its exit code alone', async () => {
  await runWithInput('true', [], rules, soon);
  await expect(runWithInput('false', [], rules, soon)).rejects.toThrow(/Command failed/);
  await expect(runWithInput('/no/such/program', [], rules, soon)).rejects.toThrow(/ENOENT/);
  await runWithInput('grep', ['-q', 'x'], rules, soon);
});
