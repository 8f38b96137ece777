/** Files of a disk by shell commands where the disk is mounted (`shell-scripts.ts`). */
import { randomUUID } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { createInterface } from 'node:readline';
import { pipeline } from 'node:stream/promises';
import { onAbort, raceAbort } from '../../async/abort.ts';
import type { DiskEntry } from '../../domain/storage/disk.ts';
import type { FileKind } from '../../domain/storage/paths.ts';
import { largestOf } from '../largest-entries.ts';
import type { DiskFiles } from './disk-files.ts';
import { FileFault } from './fault.ts';
import { folderEntry, makePage, type FolderEntry, type FolderPage, type PageRequest } from './list.ts';
import type { FileInfo, OpenFile } from './read.ts';
import * as scripts from './shell-scripts.ts';
import { kindPhrases, parsePath, splitPath } from './walk.ts';
import { checkedSource, existsFault, refuseTooLarge, type Upload, type WriteResult } from './write.ts';

export interface ShellCommand {
  stdin: Writable;
  stdout: Readable;
  stderr: Readable;
  /** Exit code. Rejects when the command did not run, or nobody knows how it ended. */
  exited: Promise<number>;
  /** Leaves the command, which may go on. */
  close(): void;
}

/** Runs `sh -c script sh FOLDER args…`, where FOLDER holds the disk. */
export type OpenShell = (script: string, args: readonly string[], signal: AbortSignal) => Promise<ShellCommand>;

/** Entry that a command works on, for its faults. */
interface Target {
  path: string;
  names: readonly string[];
  /** Ends the sentence `"path" is …` for an entry of the wrong kind. */
  unless: string;
}

const STDERR_LIMIT = 4_096;
const DISCARD_DEADLINE_MS = 10_000;

const begin = async (
  open: OpenShell,
  script: string,
  args: readonly string[],
  target: Target,
  signal: AbortSignal,
): Promise<Session> => new Session(await open(script, [...args, ...target.names], signal), target, signal);

async function run(
  open: OpenShell,
  script: string,
  args: readonly string[],
  target: Target,
  signal: AbortSignal,
  input?: Buffer,
): Promise<Buffer> {
  const session = await begin(open, script, args, target, signal);
  try {
    session.stdin.end(input);
    const [output] = await Promise.all([buffer(session.stdout), session.finish()]);
    return output;
  } finally {
    session.close();
  }
}

const entry = (path: string, unless: string): Target => {
  const { parent, name } = splitPath(path);
  return { path, names: [...parent, name], unless };
};
const folder = (path: string): Target => ({ path, names: parsePath(path), unless: '' });

/** Files of a disk where the commands run, with the sentences of files in a folder of this host. */
export const shellFiles = (open: OpenShell): DiskFiles => ({
  list: (path, page, signal) => list(open, path, page, signal),
  async makeFolder(path, signal) {
    await run(open, scripts.MAKE_FOLDER, [], entry(path, ', not a folder'), signal);
  },
  read: (path, use, signal) => read(open, path, use, signal),
  write: (path, upload, signal) => write(open, path, upload, signal),
  async remove(path, { recursive }, signal) {
    await run(open, scripts.REMOVE_ENTRY, [recursive ? 'all' : ''], entry(path, ''), signal);
  },
});

async function list(open: OpenShell, path: string, request: PageRequest, signal: AbortSignal): Promise<FolderPage> {
  const page = makePage(request);
  const target = folder(path);
  const session = await begin(open, scripts.LIST_NAMES, [], target, signal);
  try {
    session.stdin.end();
    for await (const name of namesIn(session.stdout))
      if (path !== '' || !name.startsWith(scripts.UPLOAD_PREFIX)) page.add(name);
    await session.finish();
  } finally {
    session.close();
  }
  const { names, next } = page.end();
  if (names.length === 0) return { entries: [], next };
  const input = Buffer.from(names.map((name) => `./${name}\0`).join(''), 'latin1');
  const states = await run(open, scripts.STAT_NAMES, [], target, signal, input);
  return { entries: entriesIn(states.toString('latin1')), next };
}

async function openFile(
  open: OpenShell,
  target: Target,
  signal: AbortSignal,
): Promise<{ session: Session; info: FileInfo }> {
  const session = await begin(open, scripts.READ_FILE, [], target, signal);
  try {
    return { session, info: fileInfo(await session.line()) };
  } catch (error) {
    session.close();
    throw error;
  }
}

async function read<T>(
  open: OpenShell,
  path: string,
  use: (file: OpenFile) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const target = entry(path, ', not a file');
  const { session, info } = await openFile(open, target, signal);
  let isUsed = false;
  const bytes: OpenFile['bytes'] = async function* (start, end) {
    if (start >= end) return;
    // A command serves one range, of the file that it holds open.
    const ranged = isUsed ? await openFile(open, target, signal) : { session, info };
    isUsed = true;
    try {
      if (ranged.info.version !== info.version) throw new Error('the file changed while it was read');
      yield* ranged.session.range(start, end);
    } finally {
      ranged.session.close();
    }
  };
  try {
    return await use({ ...info, bytes });
  } finally {
    session.close();
  }
}

async function write(open: OpenShell, path: string, upload: Upload, signal: AbortSignal): Promise<WriteResult> {
  const target = entry(path, '; delete it, or use another name');
  const [token, onlyNew] = [randomUUID(), upload.onlyNew ? 'new' : ''];
  const session = await begin(open, scripts.RECEIVE_UPLOAD, [token, onlyNew], target, signal);
  let isStarted = false;
  try {
    const [blocks = '', blockBytes = ''] = (await session.line()).split(' ');
    refuseTooLarge(upload, Number(blocks) * Number(blockBytes));
    isStarted = true;
    const sizeBytes = await session.send(checkedSource(upload, signal));
    await session.finish();
    const state = await run(open, scripts.COMMIT_UPLOAD, [token, String(sizeBytes), onlyNew], target, signal);
    return { ...fileInfo(state.toString()), created: state.toString().trimEnd().endsWith(' none') };
  } catch (error) {
    if (isStarted) await discard(open, session, token);
    throw error;
  } finally {
    session.close();
  }
}

/** Waits for the end of the command, which may still be creating the file. */
async function discard(open: OpenShell, session: Session, token: string): Promise<void> {
  const deadline = AbortSignal.timeout(DISCARD_DEADLINE_MS);
  session.stdin.end();
  await raceAbort(session.exited, deadline).catch(() => {});
  await run(open, scripts.DISCARD_UPLOADS, [token], folder(''), deadline).catch(() => {});
}

/** Removes uploads that no running command writes. */
export async function discardUploads(open: OpenShell, signal: AbortSignal): Promise<void> {
  await run(open, scripts.DISCARD_UPLOADS, ['*'], folder(''), signal);
}

export async function largestShellEntries(open: OpenShell, signal: AbortSignal): Promise<DiskEntry[]> {
  const session = await begin(open, scripts.LARGEST_ENTRIES, [], folder(''), signal);
  try {
    session.stdin.end();
    const entries = await largestOf(duLines(session.stdout), '.');
    // The command also fails after a whole list, if files vanished meanwhile.
    if (entries.length === 0) await session.finish();
    signal.throwIfAborted();
    return entries;
  } finally {
    session.close();
  }
}

class Session {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly exited: Promise<number>;
  readonly #command: ShellCommand;
  readonly #target: Target;
  readonly #signal: AbortSignal;
  readonly #unsubscribe: () => void;
  readonly #stderrEnded: Promise<void>;
  #stderr = '';

  constructor(command: ShellCommand, target: Target, signal: AbortSignal) {
    this.#command = command;
    this.#target = target;
    this.#signal = signal;
    ({ stdin: this.stdin, stdout: this.stdout, exited: this.exited } = command);
    this.exited.catch(() => {});
    // Input after the end of the command.
    this.stdin.on('error', () => {});
    command.stderr.setEncoding('latin1').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_LIMIT);
    });
    this.#stderrEnded = new Promise((resolve) => void command.stderr.once('end', resolve).once('close', resolve));
    this.#unsubscribe = onAbort(signal, () => command.close());
  }

  /** Returns the first line of output; throws the fault of a command without one. */
  async line(): Promise<string> {
    let start = Buffer.alloc(0);
    for await (const chunk of this.stdout.iterator({ destroyOnReturn: false })) {
      const bytes: Buffer = chunk;
      const end = bytes.indexOf('\n');
      start = Buffer.concat([start, end === -1 ? bytes : bytes.subarray(0, end)]);
      if (end === -1) continue;
      if (end + 1 < bytes.length) this.stdout.unshift(bytes.subarray(end + 1));
      return start.toString();
    }
    await this.finish();
    throw new Error('a command ended without its answer');
  }

  async *range(start: number, end: number): AsyncGenerator<Uint8Array, void> {
    this.stdin.end(`${start} ${end - start}\n`);
    let at = start;
    for await (const chunk of this.stdout) {
      const bytes: Buffer = chunk;
      at += bytes.length;
      yield bytes;
    }
    await this.finish();
    if (at !== end) throw new Error('the file became shorter while it was read');
  }

  /** Sends a line to start, then all input. Returns the number of bytes. */
  async send(source: AsyncIterable<Uint8Array>): Promise<number> {
    let sizeBytes = 0;
    let sourceError: { error: unknown } | undefined;
    const stderr = (): string => this.#stderr;
    const input = async function* (): AsyncGenerator<Uint8Array, void> {
      yield Buffer.from('go\n');
      try {
        for await (const chunk of source) {
          // The command has failed, and says why.
          if (stderr() !== '') return;
          sizeBytes += chunk.length;
          yield chunk;
        }
      } catch (error) {
        sourceError = { error };
        throw error;
      }
    };
    try {
      await pipeline(input(), this.stdin, { signal: this.#signal });
    } catch (error) {
      this.#signal.throwIfAborted();
      if (sourceError !== undefined) throw sourceError.error;
      // The command ended before its input, and says why.
      await this.finish();
      throw error;
    }
    return sizeBytes;
  }

  /** Waits for the end of the command; throws its fault. */
  async finish(): Promise<void> {
    const code = await this.exited.catch((error: unknown) => {
      this.#signal.throwIfAborted();
      throw error;
    });
    this.#signal.throwIfAborted();
    await this.#stderrEnded;
    if (code !== 0) throw faultOf(code, this.#stderr, this.#target);
  }

  close(): void {
    this.#unsubscribe();
    this.#command.close();
  }
}

const FULL = /No space left on device|[Qq]uota exceeded|File too large/;

function faultOf(code: number, stderr: string, { path, names, unless }: Target): Error {
  if (FULL.test(stderr)) return new FileFault('full', 'the volume is full');
  const words = stderr.trimEnd().split('\n').at(-1)?.split(' ') ?? [];
  const [mark, kind, which, ...rest] = words;
  if (code !== scripts.FAULT_CODE || mark !== 'fault')
    return new Error(`a command for files ended with ${code}: ${stderr.slice(-500).trim()}`);
  const folder = names.slice(0, Number(rest[0])).join('/');
  switch (`${kind} ${which}`) {
    case 'missing folder':
      return new FileFault('notFound', `the folder "${folder}" does not exist`);
    case 'missing target':
      return new FileFault('notFound', `"${path}" does not exist`);
    case 'wrongKind folder':
      return new FileFault('wrongKind', `"${folder}" is ${phraseOf(rest[1])}, not a folder`);
    case 'wrongKind target':
      return new FileFault('wrongKind', `"${path}" is ${phraseOf(rest[0])}${unless}`);
    case 'exists undefined':
      return existsFault(path);
    case 'notEmpty undefined':
      return new FileFault('notEmpty', `the folder "${path}" is not empty`);
    default:
      return new FileFault('wrongKind', `"${path}" was replaced by another kind of entry meanwhile`);
  }
}

const isKind = (text: string | undefined): text is FileKind => text !== undefined && text in kindPhrases;
const phraseOf = (kind: string | undefined): string => kindPhrases[isKind(kind) ? kind : 'other'];

/** Yields names as Latin-1. Each arrives as `./name`, NUL-terminated. */
async function* namesIn(output: Readable): AsyncGenerator<string, void> {
  let rest = '';
  for await (const chunk of output) {
    const bytes: Buffer = chunk;
    const names = (rest + bytes.toString('latin1')).split('\0');
    rest = names.pop() ?? '';
    for (const name of names) yield name.slice('./'.length);
  }
}

/** Yields entries; a line that is none continues the name before. */
async function* duLines(output: Readable): AsyncGenerator<string, void> {
  let entry = '';
  for await (const line of createInterface({ input: output, crlfDelay: Infinity })) {
    const isEntry = /^\d+\t\.(?:\/|$)/.test(line);
    if (isEntry && entry !== '') yield entry;
    entry = isEntry ? line : `${entry}\n${line}`;
  }
  yield entry;
}

/** A name can't contain the slash that ends it. */
const ENTRY = /([\da-f]+) (\d+) (\S+ \S+) \S+ \.\/([^/]+)\/\n/y;

function entriesIn(states: string): FolderEntry[] {
  const entries: FolderEntry[] = [];
  ENTRY.lastIndex = 0;
  for (let found = ENTRY.exec(states); found !== null; found = ENTRY.exec(states)) {
    const [, modeText = '', size, time = '', name = ''] = found;
    const mode = Number.parseInt(modeText, 16);
    entries.push(
      folderEntry(Buffer.from(name, 'latin1'), {
        kind: KINDS[mode & TYPE_BITS] ?? 'other',
        sizeBytes: Number(size),
        modifiedAtMs: unixMs(time),
        mode,
      }),
    );
  }
  return entries;
}

const TYPE_BITS = 0o170000;
const KINDS: Readonly<Record<number, FileKind>> = { 0o100000: 'file', 0o040000: 'folder', 0o120000: 'link' };

/** `line`: size, inode, time of the content, time of any change. */
function fileInfo(line: string): FileInfo {
  const [size, inode, date = '', time = '', , changeDate, changeTime] = line.trimEnd().split(' ');
  const version = [inode, size, date, time, changeDate, changeTime].join('-').replaceAll(/[^\d-]/g, '');
  return { sizeBytes: Number(size), modifiedAtMs: unixMs(`${date} ${time}`), version };
}

/** `2026-11-24 03:01:53.895525144` in UTC, with or without a fraction. */
const unixMs = (time: string): number => Date.parse(`${time.replace(' ', 'T').slice(0, 23)}Z`) || 0;
