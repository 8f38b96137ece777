/** The program's start: what it loads. */
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { program } from '../../../scripts/lib/program.mjs';

const PRINT_LOADED = `data:text/javascript,process.on('exit',()=>console.log(process.moduleLoadList.join()))`;

test('loads nothing that strips types from the second start on', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'berth-program-'));
  try {
    const env = { PATH: process.env['PATH'], TMPDIR: folder, BERTH_LISTEN: 'no address' };
    const start = () => spawnSync(process.execPath, ['--import', PRINT_LOADED, ...program], { env, encoding: 'utf8' });
    const [first, second] = [start(), start()];
    expect(first.stdout).toContain('internal/deps/amaro');
    expect(second.stderr).toContain('BERTH_LISTEN');
    expect(second.stdout).toContain('internal/modules/esm');
    expect(second.stdout).not.toContain('internal/deps/amaro');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
