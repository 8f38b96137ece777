/** `npm run audit`: verifies or exports the audit log of a data folder, beside a server or not. */
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { errorText } from '../domain/kernel/unknown-error.ts';
import type { Db } from '../store/store.ts';

// Must run before large modules load, as in `berth.ts`.
enableCompileCache();

const { makeAuditChain } = await import('../control/access/audit/chain.ts');
const { verifyAudit } = await import('../control/access/audit/verify.ts');
const { openToRead } = await import('../store/open-to-read.ts');
const { auditAfter, auditAnchor, subjectsOfRow } = await import('../store/tables/audit.ts');
const { auditHeadFile } = await import('./audit-head-file.ts');
const { readConfig } = await import('./config.ts');
const { readStored } = await import('./secret-files.ts');

const PAGE = 1_000;

async function verify(read: Db, dataFolder: string): Promise<number> {
  const key = await readStored(join(dataFolder, 'secrets.key'));
  if (key === null) throw new Error(`${join(dataFolder, 'secrets.key')} is missing: only this key verifies the log.`);
  const fileHead = await auditHeadFile(dataFolder).read();
  const verdict = await verifyAudit(read, makeAuditChain(key), fileHead);
  if (!verdict.ok) {
    process.stderr.write(`audit record ${verdict.position}: ${verdict.problem}\n`);
    return 1;
  }
  const { records, first, last } = verdict;
  const span = records === 0 ? '' : `, ${first} to ${last}`;
  process.stdout.write(`${records} audit records${span}: none was changed, removed or reordered\n`);
  return 0;
}

const timeOf = (name: string, given: string | undefined, otherwise: number): number => {
  if (given === undefined) return otherwise;
  const ms = /^\d+$/.test(given) ? Number(given) : Date.parse(given);
  if (Number.isNaN(ms))
    throw new Error(`--${name} is ${given}: it must be a time such as 2026-11-23T12:00:00Z, or Unix milliseconds`);
  return ms;
};

async function exportLines(read: Db, fromMs: number, toMs: number): Promise<number> {
  let { position } = await auditAnchor(read);
  for (;;) {
    const rows = await auditAfter(read, position, PAGE);
    const lines = rows
      .filter(({ atMs }) => atMs >= fromMs && atMs < toMs)
      .map((row) => {
        const { atMs, subjects: _, ...record } = row;
        return `${JSON.stringify({ ...record, atUnixMs: atMs, subjectIds: subjectsOfRow(row) })}\n`;
      });
    if (lines.length > 0) await new Promise((resolve) => process.stdout.write(lines.join(''), resolve));
    const last = rows.at(-1);
    if (last === undefined) return 0;
    ({ position } = last);
  }
}

async function run(): Promise<number> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { from: { type: 'string' }, to: { type: 'string' } },
  });
  const { dataFolder, databaseUrl } = readConfig(process.env);
  const store = await openToRead({ url: databaseUrl, file: join(dataFolder, 'berth.db') });
  try {
    if (positionals[0] === 'verify') return await verify(store.read, dataFolder);
    return await exportLines(store.read, timeOf('from', values.from, 0), timeOf('to', values.to, Infinity));
  } finally {
    await store.stop();
  }
}

process.exitCode = await run().catch((error: unknown) => {
  process.stderr.write(`${errorText(error)}\n`);
  return 2;
});
