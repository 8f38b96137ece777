/** `npm run audit` on the data folder of a server that runs. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { makeAudit } from '../../../src/control/access/audit/audit.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { auditHeadFile } from '../../../src/main/audit-head-file.ts';
import { openStore } from '../../../src/store/open.ts';
import { onBothEngines, quietLog } from '../../fixtures/store.ts';
import { secretsKey } from '../../fixtures/test-seal.ts';

const ROOT = join(import.meta.dirname, '../../..');
const run = promisify(execFile);
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

onBothEngines('npm run audit', (open) => {
  test('verifies and exports while the server runs, and names a changed record', async () => {
    const address = await open.empty();
    const folder = 'file' in address ? dirname(address.file) : await mkdtemp(join(tmpdir(), 'berth-audit-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    await writeFile(join(folder, 'secrets.key'), secretsKey);
    const store = await openStore({ ...address, log: quietLog });
    onTestFinished(() => store.stop());
    const clock = { ms: Date.parse('2026-01-01T00:00:00Z') };
    const time = { ...realTime, now: () => clock.ms };
    const audit = makeAudit({ store, time, log: silent, secretsKey, auditHeadFile: auditHeadFile(folder) });
    for (const route of ['stop', 'start', 'terminate']) {
      const known = { outcome: 'ok', caller: null, loginName: null, address: '', userAgent: '', requestId: '' };
      await audit.record({ ...known, route, subjects: [] });
      clock.ms += 3_600_000;
    }
    await audit.seal();
    const command = (...args: string[]) =>
      run(process.execPath, ['src/main/audit-command.ts', ...args], {
        cwd: ROOT,
        env: { ...process.env, BERTH_DATA: folder, BERTH_DATABASE_URL: 'url' in address ? address.url : '' },
      });

    expect((await command('verify')).stdout).toBe('3 audit records, 1 to 3: none was changed, removed or reordered\n');
    const { stdout } = await command('export', '--from', '2026-01-01T01:00:00Z', '--to', String(clock.ms - 3_600_000));
    expect(
      stdout
        .trim()
        .split('\n')
        .map((line): unknown => JSON.parse(line)),
    ).toMatchObject([{ position: 2, route: 'start', subjectIds: [], atUnixMs: Date.parse('2026-01-01T01:00:00Z') }]);
    await expect(command('export', '--from', 'noon')).rejects.toMatchObject({
      stderr: expect.stringContaining('--from is noon: it must be a time such as'),
    });

    await store.write((tx) => tx.updateTable('audit').set({ route: 'list' }).where('position', '=', 2).execute());
    await expect(command('verify')).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining('audit record 2: this record was changed'),
    });
  });
});
