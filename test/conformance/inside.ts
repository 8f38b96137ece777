/** The instance from inside, through exec; exec and logs. */
import { readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { InstanceId } from '../../src/domain/kernel/ids.ts';
import { control, deadline, expectFault, expectPresent, newInstanceId, skipWithout, type Subject } from './subject.ts';

const mebibyte = 1024 * 1024;

export function describeInside(current: () => Subject): void {
  describe('inside', () => {
    it('the host name is the requested one', async () => {
      const subject = current();
      const spec = subject.spec();
      await subject.ensure(spec);
      expect(await subject.exec(spec.id, 'hostname')).toEqual({
        exitCode: 0,
        stdout: `${spec.hostname}\n`,
        stderr: '',
      });
    });

    it('mounts show the folders of the host, and only writable ones can be written', async () => {
      const subject = current();
      const [writable, readOnly] = [await subject.fixture.hostFolder(), await subject.fixture.hostFolder()];
      await writeFile(path.join(writable, 'from-host'), 'hello, instance');
      await writeFile(path.join(readOnly, 'data-set'), 'numbers');
      const mounts = [
        { source: await subject.fixture.mountSource(writable), target: '/root/dataDisk', readOnly: false },
        { source: await subject.fixture.mountSource(readOnly), target: '/root/commonData', readOnly: true },
      ];
      const spec = subject.spec({ mounts });
      await subject.ensure(spec);
      expect((await subject.exec(spec.id, 'cat', '/root/dataDisk/from-host')).stdout).toBe('hello, instance');
      expect((await subject.exec(spec.id, 'cat', '/root/commonData/data-set')).stdout).toBe('numbers');
      expect((await subject.exec(spec.id, 'touch', '/root/dataDisk/from-inside')).exitCode).toBe(0);
      expect((await stat(path.join(writable, 'from-inside'))).isFile()).toBe(true);
      const refused = await subject.exec(spec.id, 'touch', '/root/commonData/from-inside');
      expect(refused.exitCode).not.toBe(0);
      expect(refused.stderr).toMatch(/read-only/i);
      await expect(stat(path.join(readOnly, 'from-inside'))).rejects.toThrow(/ENOENT/);
    });

    it('mounts outlive the instance', async () => {
      const subject = current();
      const folder = await subject.fixture.hostFolder();
      await writeFile(path.join(folder, 'precious'), 'kept');
      const source = await subject.fixture.mountSource(folder);
      const spec = subject.spec({ mounts: [{ source, target: '/root/dataDisk', readOnly: false }] });
      await subject.ensure(spec);
      await subject.fixture.engine.destroy(spec.id, deadline());
      expect(await readFile(path.join(folder, 'precious'), 'utf8')).toBe('kept');
    });

    it('limits of memory, CPU and processes are the requested ones', async (context) => {
      const subject = current();
      skipWithout('cgroupFiles', subject, context);
      const spec = subject.spec({ memoryMiB: 48, cpuMilli: 250, pidsLimit: 33 });
      await subject.ensure(spec);
      const read = (...names: string[]): Promise<string> => readFirst(subject, spec.id, names);
      expect(Number(await read('memory.max', 'memory/memory.limit_in_bytes'))).toBe(48 * mebibyte);
      if (subject.fixture.lacks.processLimit === undefined)
        expect(Number(await read('pids.max', 'pids/pids.max'))).toBe(33);
      const [quota, period] = (await read('cpu.max', 'cpu/cpu.cfs_quota_us')).split(' ');
      const periodUs = Number(period ?? (await read('cpu/cpu.cfs_period_us')));
      expect(Number(quota) / periodUs).toBeCloseTo(0.25, 3);
    });

    it('control files are exact, with their modes, and read-only', async () => {
      const subject = current();
      const text = 'no newline at the end, "quotes", $HOME, ünïcödé';
      const files = [control('token', text, 0o600), control('script', '#!/bin/sh\n', 0o755), control('empty', '')];
      const spec = subject.spec({ files });
      await subject.ensure(spec);
      expect((await subject.exec(spec.id, 'cat', '/etc/berth/token')).stdout).toBe(text);
      expect(await subject.exec(spec.id, 'cat', '/etc/berth/empty')).toEqual({ exitCode: 0, stdout: '', stderr: '' });
      expect((await subject.exec(spec.id, 'stat', '-L', '-c', '%a', '/etc/berth/token')).stdout).toBe('600\n');
      expect((await subject.exec(spec.id, 'stat', '-L', '-c', '%a', '/etc/berth/script')).stdout).toBe('755\n');
      const refused = await subject.exec(spec.id, 'touch', '/etc/berth/mine');
      expect(refused.exitCode).not.toBe(0);
      expect(refused.stderr).toMatch(/read-only/i);
    });

    it('changed control files are replaced while it runs, added ones appear, removed ones vanish', async () => {
      const subject = current();
      const spec = subject.spec({ files: [control('note', 'old'), control('gone', 'here'), control('same', 'same')] });
      const before = expectPresent(await subject.ensure(spec));
      const files = spec.files.filter(({ name }) => name === 'start' || name === 'same');
      const after = await subject.ensure({
        ...spec,
        files: [...files, control('note', 'new'), control('added', 'now')],
      });
      expect(after, 'the same run continues').toEqual(before);
      expect((await subject.exec(spec.id, 'cat', '/etc/berth/note')).stdout).toBe('new');
      expect((await subject.exec(spec.id, 'cat', '/etc/berth/added')).stdout).toBe('now');
      expect((await subject.exec(spec.id, 'cat', '/etc/berth/same')).stdout).toBe('same');
      expect((await subject.exec(spec.id, 'cat', '/etc/berth/gone')).exitCode).not.toBe(0);
      const listed = (await subject.exec(spec.id, 'ls', '/etc/berth')).stdout.split('\n').filter((name) => name !== '');
      expect(listed.toSorted()).toEqual(['added', 'note', 'same', 'start']);
    });

    it('control files changed while stopped appear at the next start', async () => {
      const subject = current();
      const spec = subject.spec({ files: [control('note', 'old')] });
      await subject.ensure(spec);
      await subject.fixture.engine.halt(spec.id, 5_000, deadline());
      await subject.ensure({ ...spec, files: [...spec.files.slice(0, 1), control('note', 'new')] });
      expect((await subject.exec(spec.id, 'cat', '/etc/berth/note')).stdout).toBe('new');
    });

    it('a reader that has a control file open reads the old one to its end', async (context) => {
      const subject = current();
      skipWithout('shell', subject, context);
      const spec = subject.spec({ files: [control('note', 'the old note')] });
      await subject.ensure(spec);
      const script =
        'exec 3</etc/berth/note; : >/tmp/open; while [ "$(cat /etc/berth/note)" = "the old note" ]; do sleep 0.1; done; cat <&3';
      const reader = subject.exec(spec.id, 'sh', '-c', script);
      await subject.until(
        'the reader has it open',
        async () => (await subject.exec(spec.id, 'ls', '/tmp/open')).exitCode === 0,
      );
      await subject.ensure({ ...spec, files: [...spec.files.slice(0, 1), control('note', 'the new note')] });
      expect(await reader).toMatchObject({ exitCode: 0, stdout: 'the old note' });
    });

    it('a control file is never missing or half written while it is replaced', async (context) => {
      const subject = current();
      skipWithout('shell', subject, context);
      const texts = ['a', 'b'].map((letter) => letter.repeat(100_000));
      const noteOf = (round: number): string => texts[round % 2] ?? '';
      const spec = subject.spec({ files: [control('note', noteOf(0))] });
      await subject.ensure(spec);
      // counts reads with unexpected content until stopped
      const script =
        ': >/tmp/looking; bad=0; looks=0; while [ ! -e /tmp/enough ]; do looks=$((looks + 1)); ' +
        'case $(tr -s ab </etc/berth/note)$(wc -c </etc/berth/note) in a100000 | b100000) ;; *) bad=$((bad + 1)) ;; esac; done; ' +
        'echo "$bad bad, some: $((looks > 0))"';
      const reader = subject.exec(spec.id, 'sh', '-c', script);
      await subject.until(
        'the reader loop runs',
        async () => (await subject.exec(spec.id, 'ls', '/tmp/looking')).exitCode === 0,
      );
      for (let round = 1; round <= 30; round++) {
        await subject.ensure({ ...spec, files: [...spec.files.slice(0, 1), control('note', noteOf(round))] });
      }
      await subject.exec(spec.id, 'touch', '/tmp/enough');
      expect((await reader).stdout).toBe('0 bad, some: 1\n');
    });
  });

  describe('exec', () => {
    it('returns the exit code, with separate stdout and stderr', async () => {
      const subject = current();
      const spec = subject.spec();
      await subject.ensure(spec);
      expect(await subject.exec(spec.id, 'true')).toEqual({ exitCode: 0, stdout: '', stderr: '' });
      expect((await subject.exec(spec.id, 'false')).exitCode).toBe(1);
      expect((await subject.exec(spec.id, 'sh', '-c', 'exit 42')).exitCode).toBe(42);
      const failed = await subject.exec(spec.id, 'cat', '/root/not-there');
      expect(failed).toMatchObject({ exitCode: 1, stdout: '' });
      expect(failed.stderr).toContain('/root/not-there');
    });

    it('a command that does not exist ends with 126 or 127', async () => {
      const subject = current();
      const spec = subject.spec();
      await subject.ensure(spec);
      expect([126, 127]).toContain((await subject.exec(spec.id, 'no-such-command')).exitCode);
    });

    it('cuts the output at 1 MiB and still ends', async () => {
      const subject = current();
      const spec = subject.spec();
      await subject.ensure(spec);
      const { exitCode, stdout } = await subject.exec(spec.id, 'head', '-c', '3000000', '/dev/zero');
      expect(exitCode).toBe(0);
      expect(Buffer.byteLength(stdout)).toBe(mebibyte);
    });

    it('is not_found for a stopped or absent instance', async () => {
      const subject = current();
      const spec = subject.spec();
      await subject.ensure(spec);
      await subject.fixture.engine.halt(spec.id, 5_000, deadline());
      await expectFault(subject.exec(spec.id, 'true'), 'not_found');
      await expectFault(subject.exec(newInstanceId(), 'true'), 'not_found');
    });
  });
}

/** First existing file of `/sys/fs/cgroup`, trimmed. */
async function readFirst(subject: Subject, id: InstanceId, names: string[]): Promise<string> {
  for (const name of names) {
    const { exitCode, stdout } = await subject.exec(id, 'cat', `/sys/fs/cgroup/${name}`);
    if (exitCode === 0) return stdout.trim();
  }
  return expect.fail(`none of ${names.join(', ')} can be read inside`);
}
