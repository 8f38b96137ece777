/**
 * Persists a simulated host, which survives the server as real containers do.
 *
 * A journal: one JSON line per change, written synchronously before the verb answers, so a kill -9
 * loses nothing. Not synced: a power cut may lose the end. An incomplete last line is ignored. The
 * file is rewritten when opened, and when much larger than its content. Long control files are
 * written once and then referenced by number.
 */
import {
  closeSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { instanceId, userId } from '../../domain/kernel/ids.ts';
import { errorCode } from '../../domain/kernel/unknown-error.ts';
import { containerName } from '../labels.ts';
import { scriptOf, type Container } from './container.ts';
import type { StoredImage } from './images.ts';

const logLines = z.array(z.object({ atMs: z.number(), text: z.string() }));
const content = z.union([z.string(), z.number()]);
const containerLine = z.object({
  installation: z.string(),
  spec: z.object({
    id: z.string().transform(instanceId),
    ownerId: z.string().transform(userId),
    generation: z.number(),
    hostname: z.string(),
    imageRef: z.string(),
    cpuMilli: z.number(),
    memoryMiB: z.number(),
    pidsLimit: z.number(),
    gpus: z.number(),
    gpuName: z.string().optional(),
    mounts: z.array(z.object({ source: z.string(), target: z.string(), readOnly: z.boolean() })),
    nodePorts: z.array(z.object({ port: z.number(), nodePort: z.number() })),
    nodePortAddress: z.string(),
    docker: z.object({ storage: z.string() }).optional(),
    files: z.array(z.object({ name: z.string(), content, mode: z.number() })),
  }),
  state: z.enum(['created', 'running', 'exited']),
  serial: z.number(),
  createdAtMs: z.number(),
  starts: z.number(),
  startedAtMs: z.number(),
  /** Null means never: JSON has no Infinity. */
  readyAtMs: z.number().nullable(),
  exitCode: z.number().nullable(),
  outOfMemory: z.boolean(),
  docker: z.enum(['running', 'stopped']).optional(),
  rootDisk: z.array(z.string()),
  init: z.object({ code: z.number(), endsAtMs: z.number(), lost: z.boolean() }).nullable(),
  console: logLines,
  initLog: logLines,
});
const imageLine = {
  rootDisk: z.array(z.string()),
  bytes: z.number().default(0),
  saved: z
    .object({
      installation: z.string(),
      id: z.string().transform(instanceId),
      ownerId: z.string().transform(userId),
      createdAtMs: z.number(),
    })
    .optional(),
};
const journalLine = z.union([
  z.object({ text: z.number(), content: z.string() }),
  z.object({ container: containerLine }),
  z.object({ gone: z.string() }),
  z.object({ image: z.string(), ...imageLine }),
  z.object({ pushed: z.string(), ...imageLine }),
  z.object({ imageGone: z.string() }),
]);

export interface JournalState {
  containers: Map<string, Container>;
  images: Map<string, StoredImage>;
  pushed: Map<string, StoredImage>;
}

const longTextLength = 200;
const pieceLength = 1_000_000;
/** Superfluous lines that trigger a rewrite. */
const spareLines = 10_000;

type Change =
  { gone: string } | ({ image: string } & StoredImage) | ({ pushed: string } & StoredImage) | { imageGone: string };

export class Journal {
  readonly #file: string;
  readonly state: JournalState;
  #descriptor: number;
  #lines = 0;
  #numbers = new Map<string, number>();

  /** Reads and rewrites the file. Throws for other content. */
  constructor(file: string) {
    this.#file = file;
    this.state = existsSync(file) ? read(file) : emptyState();
    mkdirSync(path.dirname(file), { recursive: true });
    this.#descriptor = openSync(file, 'a', 0o600);
    this.#compact();
  }

  put(container: Container): void {
    this.#append(this.#put(container));
  }

  /** Appends a change that is already in the state. */
  record(change: Change): void {
    this.#append(lineOf(change));
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  #append(text: string): void {
    appendWhole(this.#descriptor, text);
    this.#lines++;
    if (this.#lines > 2 * sizeOf(this.state) + spareLines) this.#compact();
  }

  /** On a full disk the file stays as it is, and later lines define their texts again. */
  #compact(): void {
    try {
      this.#rewrite();
    } catch (error) {
      if (errorCode(error) !== 'ENOSPC') throw error;
      this.#numbers = new Map();
      rmSync(`${this.#file}.new`, { force: true });
    }
  }

  #rewrite(): void {
    const { containers, images, pushed } = this.state;
    this.#numbers = new Map();
    const rewritten = `${this.#file}.new`;
    rmSync(rewritten, { force: true });
    const descriptor = openSync(rewritten, 'a', 0o600);
    let text = '';
    for (const [ref, image] of images) text += lineOf({ image: ref, ...image });
    for (const [ref, image] of pushed) text += lineOf({ pushed: ref, ...image });
    for (const container of containers.values()) {
      text += this.#put(container);
      if (text.length < pieceLength) continue;
      appendWhole(descriptor, text);
      text = '';
    }
    appendWhole(descriptor, text);
    renameSync(rewritten, this.#file);
    closeSync(this.#descriptor);
    this.#descriptor = descriptor;
    this.#lines = sizeOf(this.state);
  }

  /** Line of a container, after the texts it references first. */
  #put(container: Container): string {
    let texts = '';
    const files = container.spec.files.map((file) => {
      if (file.content.length < longTextLength) return file;
      let number = this.#numbers.get(file.content);
      if (number === undefined) {
        number = this.#numbers.size;
        this.#numbers.set(file.content, number);
        texts += lineOf({ text: number, content: file.content });
      }
      return { ...file, content: number };
    });
    const readyAtMs = Number.isFinite(container.readyAtMs) ? container.readyAtMs : null;
    const init = container.init ?? null;
    const spec = { ...container.spec, files };
    const rootDisk = [...container.touchedFiles];
    return texts + lineOf({ container: { ...container, spec, init, readyAtMs, rootDisk, script: undefined } });
  }
}

/** Leaves no part of a line on a full disk: the next one would continue it. */
function appendWhole(descriptor: number, text: string): void {
  const { size } = fstatSync(descriptor);
  const bytes = Buffer.from(text);
  try {
    for (let written = 0; written < bytes.length;) written += writeSync(descriptor, bytes, written);
  } catch (error) {
    ftruncateSync(descriptor, size);
    throw error;
  }
}

export const emptyState = (): JournalState => ({ containers: new Map(), images: new Map(), pushed: new Map() });

const sizeOf = ({ containers, images, pushed }: JournalState): number => containers.size + images.size + pushed.size;

const lineOf = (value: unknown): string => `${JSON.stringify(value)}\n`;

function read(file: string): JournalState {
  const state = emptyState();
  const texts = new Map<number, string>();
  const lines = readFileSync(file, 'utf8').split('\n');
  lines.pop();
  for (const [index, text] of lines.entries()) {
    const line = parse(file, index + 1, text);
    if ('text' in line) texts.set(line.text, line.content);
    else if ('gone' in line) state.containers.delete(line.gone);
    else if ('image' in line) state.images.set(line.image, imageOf(line));
    else if ('pushed' in line) state.pushed.set(line.pushed, imageOf(line));
    else if ('imageGone' in line) state.images.delete(line.imageGone);
    else {
      const container = revive(line.container, texts);
      state.containers.set(containerName(container.spec.id), container);
    }
  }
  return state;
}

const imageOf = ({ rootDisk, bytes, saved }: StoredImage): StoredImage => ({ rootDisk, bytes, saved });

function parse(file: string, number: number, line: string): z.infer<typeof journalLine> {
  try {
    return journalLine.parse(JSON.parse(line));
  } catch (cause) {
    const text = `${file}, line ${number}, is not valid; remove the file to start without containers`;
    throw new Error(text, { cause });
  }
}

function revive(line: z.infer<typeof containerLine>, texts: ReadonlyMap<number, string>): Container {
  const files = line.spec.files.map((file) => ({
    ...file,
    content: typeof file.content === 'string' ? file.content : (texts.get(file.content) ?? ''),
  }));
  const spec = { ...line.spec, files };
  return {
    ...line,
    spec,
    readyAtMs: line.readyAtMs ?? Infinity,
    init: line.init ?? undefined,
    touchedFiles: new Set(line.rootDisk),
    script: scriptOf(spec),
  };
}
