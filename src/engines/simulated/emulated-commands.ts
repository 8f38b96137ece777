/**
 * Commands of a simulated instance on control files, limits, mounts (real folders of the host) and
 * a root disk of touched files.
 */
import { open, readdir, writeFile } from 'node:fs/promises';
import { constants } from 'node:fs';
import path from 'node:path';
import { errorText } from '../../domain/kernel/unknown-error.ts';
import type { ExecResult } from '../contract.ts';
import { addressOf, fileOf, useOf, type Container } from './container.ts';

export const outputLimitBytes = 1024 * 1024;

const emulatedCommands =
  'true, false, echo, hostname [-i], cat, ls, touch, stat -c %a, head -c N /dev/zero, nc -w S ADDRESS PORT, sh -c "exit N"; with open streams also cat, sleep, stty size, env, sh';
const folders = new Set(['/', '/root', '/tmp', '/etc', '/var', '/var/log', '/etc/berth']);
const touchLimit = 1_000;

export interface CommandContext {
  container: Container;
  nowMs: number;
  /** Whether a program listens at the address within the account's network. */
  reaches: (address: string, port: number) => boolean;
  onWrite: () => void;
}

type Outcome = { ok: string } | { failed: string; exitCode?: number };

export async function emulate(inside: CommandContext, command: readonly string[]): Promise<ExecResult> {
  const outcome = await run(inside, command);
  if ('ok' in outcome) return { exitCode: 0, stdout: outcome.ok, stderr: '' };
  return { exitCode: outcome.exitCode ?? 1, stdout: '', stderr: outcome.failed };
}

async function run(inside: CommandContext, [name = '', ...args]: readonly string[]): Promise<Outcome> {
  const { container } = inside;
  const [first = '', second = '', third = '', fourth = ''] = args;
  switch (name) {
    case 'true':
      return { ok: '' };
    case 'false':
      return { failed: '' };
    case 'echo':
      return { ok: `${args.join(' ')}\n` };
    case 'hostname':
      return { ok: `${first === '-i' ? addressOf(container) : container.spec.hostname}\n` };
    case 'cat':
      return joined(args.map((file) => cat(inside, file)));
    case 'ls':
      return joined(args.map((file) => list(container, file)));
    case 'touch':
      return joined(args.map((file) => touch(inside, file)));
    case 'stat': {
      const isMode = first === '-L' && second === '-c' && third === '%a';
      const file = isMode ? controlFile(container, fourth) : undefined;
      return file ? { ok: `${file.mode.toString(8)}\n` } : { failed: `stat: ${fourth}: not simulated\n` };
    }
    case 'head': {
      const bytes = first === '-c' && third === '/dev/zero' ? Number(second) : NaN;
      if (!(bytes >= 0)) return notEmulated([name, ...args]);
      return { ok: '\0'.repeat(Math.min(bytes, outputLimitBytes)) };
    }
    case 'nc':
      if (first !== '-w') return notEmulated([name, ...args]);
      return inside.reaches(third, Number(fourth))
        ? { ok: '' }
        : { failed: `nc: ${third} (${third}:${fourth}): no route\n` };
    case 'sh': {
      const exit = /^exit (\d{1,3})$/.exec(first === '-c' ? second : '');
      return exit ? { failed: '', exitCode: Number(exit[1]) & 255 } : notEmulated([name, ...args]);
    }
    default:
      return notEmulated([name, ...args]);
  }
}

const notEmulated = (command: readonly string[]): Outcome => ({
  failed: `berth-sim: ${JSON.stringify(command.join(' '))}: this instance is simulated and runs no commands except ${emulatedCommands}\n`,
  exitCode: 127,
});

async function joined(parts: Promise<Outcome>[]): Promise<Outcome> {
  let text = '';
  for (const outcome of await Promise.all(parts)) {
    if ('failed' in outcome) return outcome;
    text += outcome.ok;
  }
  return {
    ok: Buffer.byteLength(text) > outputLimitBytes ? Buffer.from(text).subarray(0, outputLimitBytes).toString() : text,
  };
}

/** Host path of a path in a mount. Resolves `..` first, so no path leaves the mount. */
function mounted({ spec }: Container, file: string): { hostPath: string; readOnly: boolean } | undefined {
  const absolute = path.posix.resolve('/root', file);
  const mount = spec.mounts
    .filter(({ target }) => absolute === target || absolute.startsWith(`${target}/`))
    .toSorted((one, other) => other.target.length - one.target.length)[0];
  return mount && { hostPath: path.join(mount.source, absolute.slice(mount.target.length)), readOnly: mount.readOnly };
}

export const permissionOf = (container: Container, file: string): 'executable' | 'not executable' | undefined => {
  const found = file.includes('/') ? controlFile(container, file) : undefined;
  return found && ((found.mode & 0o111) !== 0 ? 'executable' : 'not executable');
};

const controlFile = (container: Container, file: string): ReturnType<typeof fileOf> => {
  const resolved = path.posix.resolve('/root', file);
  // The start script links it.
  const absolute = resolved === '/run/berth/notice.json' ? '/etc/berth/notice.json' : resolved;
  return absolute.startsWith('/etc/berth/') ? fileOf(container.spec, absolute.slice('/etc/berth/'.length)) : undefined;
};

function limitFile({ spec }: Container, file: string): string | undefined {
  switch (file) {
    case '/sys/fs/cgroup/memory.max':
      return `${spec.memoryMiB * 1024 * 1024}\n`;
    case '/sys/fs/cgroup/pids.max':
      return `${spec.pidsLimit}\n`;
    case '/sys/fs/cgroup/cpu.max':
      return `${spec.cpuMilli * 100} 100000\n`;
    default:
      return undefined;
  }
}

const COLUMNS = '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n';

/** `/proc/net/tcp` and `tcp6` with sshd, and the script's listeners and sessions. */
function connectionTable(container: Container, file: string, nowMs: number): string | undefined {
  if (file === '/proc/net/tcp6') return COLUMNS;
  if (file !== '/proc/net/tcp') return undefined;
  const line = (at: number, ends: string, state: string): string =>
    `${String(at).padStart(4)}: ${ends} ${state} 00000000:00000000 00:00000000 00000000     0        0 ${1000 + at} 1 0 100 0 0 10 0\n`;
  const sessions = Array.from({ length: useOf(container, 'ssh', nowMs) }, (_, at) =>
    line(at + 1, `020011AC:0016 010011AC:${(50_000 + at).toString(16).toUpperCase()}`, '01'),
  );
  const listening = [...container.script.listens].map(([port, { onLoopback }], at) => {
    const address = onLoopback ? '0100007F' : '00000000';
    return line(100 + at, `${address}:${port.toString(16).toUpperCase().padStart(4, '0')} 00000000:0000`, '0A');
  });
  return [COLUMNS, line(0, '00000000:0016 00000000:0000', '0A'), ...listening, ...sessions].join('');
}

async function cat({ container, nowMs }: CommandContext, file: string): Promise<Outcome> {
  const known =
    controlFile(container, file)?.content ?? limitFile(container, file) ?? connectionTable(container, file, nowMs);
  if (known !== undefined) return { ok: known };
  const mount = mounted(container, file);
  if (mount !== undefined) return attempt('cat', file, () => readStart(mount.hostPath));
  if (container.touchedFiles.has(path.posix.resolve('/root', file))) return { ok: '' };
  return { failed: `cat: can't open '${file}': No such file or directory\n` };
}

async function list(container: Container, file: string): Promise<Outcome> {
  const absolute = path.posix.resolve('/root', file);
  if (absolute === '/etc/berth') return { ok: lines(container.spec.files.map(({ name }) => name)) };
  if (controlFile(container, file) || container.touchedFiles.has(absolute)) return { ok: `${file}\n` };
  const mount = mounted(container, file);
  if (mount !== undefined) {
    return attempt('ls', file, async () => {
      const names = await readdir(mount.hostPath).catch(() => undefined);
      if (names !== undefined) return lines(names);
      await readStart(mount.hostPath);
      return `${file}\n`;
    });
  }
  if (!folders.has(absolute)) return { failed: `ls: ${file}: No such file or directory\n` };
  return {
    ok: lines(
      [...container.touchedFiles]
        .filter((one) => path.posix.dirname(one) === absolute)
        .map((one) => path.posix.basename(one)),
    ),
  };
}

async function touch({ container, onWrite }: CommandContext, file: string): Promise<Outcome> {
  const absolute = path.posix.resolve('/root', file);
  const mount = mounted(container, file);
  if (absolute.startsWith('/etc/berth/') || mount?.readOnly)
    return { failed: `touch: ${file}: Read-only file system\n` };
  if (mount !== undefined) {
    return attempt('touch', file, async () => {
      const flag = constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND | constants.O_NOFOLLOW;
      await writeFile(mount.hostPath, '', { flag });
      return '';
    });
  }
  if (!folders.has(path.posix.dirname(absolute))) return { failed: `touch: ${file}: No such file or directory\n` };
  if (!container.touchedFiles.has(absolute) && container.touchedFiles.size >= touchLimit) {
    return { failed: `touch: ${file}: the simulation stores at most ${touchLimit} files\n` };
  }
  container.touchedFiles.add(absolute);
  onWrite();
  return { ok: '' };
}

async function attempt(name: string, file: string, work: () => Promise<string>): Promise<Outcome> {
  try {
    return { ok: await work() };
  } catch (error) {
    return { failed: `${name}: ${file}: ${errorText(error)}\n` };
  }
}

/** Reads the beginning of a host file; follows no links, which could leave the mount. */
async function readStart(hostPath: string): Promise<string> {
  const file = await open(hostPath, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(outputLimitBytes), 0, outputLimitBytes, 0);
    return buffer.toString('utf8', 0, bytesRead);
  } finally {
    await file.close();
  }
}

const lines = (names: string[]): string =>
  names
    .toSorted()
    .map((name) => `${name}\n`)
    .join('');
