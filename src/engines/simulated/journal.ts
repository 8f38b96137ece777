/**
 * What a simulated host holds, kept in a file, so that it outlives the server's process as a real engine's containers do.
 *
 * The file is a journal: one line of JSON a change, appended by one synchronous write before the verb answers. So nothing that was
 * answered is lost to a kill -9; it isn't synced, so a power cut may lose the end. A line cut off at the end is left out. When the
 * file has grown to several times what it says, and whenever it is opened, it is written anew beside itself and renamed into place.
 * A snapshot at each change would cost as much as there are containers, and one a little later would lose what was answered before.
 *
 * Long control files (the entry point is the same for all) are written once, and meant by number from then on.
 */
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { instanceId, userId } from '../../domain/ids.ts';
import { scriptOf, type Container } from './container.ts';
import type { KeptImage } from './images.ts';

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
    mounts: z.array(z.object({ source: z.string(), target: z.string(), readOnly: z.boolean() })),
    nodePorts: z.array(z.object({ port: z.number(), nodePort: z.number() })),
    nodePortAddress: z.string(),
    docker: z.object({ storage: z.string() }).optional(),
    files: z.array(z.object({ name: z.string(), content, mode: z.number() })),
  }),
  state: z.enum(['created', 'running', 'exited']),
  serial: z.number(),
  /** Journals of before have none. */
  createdAtMs: z.number().default(0),
  starts: z.number(),
  startedAtMs: z.number(),
  /** null: never, which JSON has no number for. */
  readyAtMs: z.number().nullable(),
  exitCode: z.number().nullable(),
  outOfMemory: z.boolean(),
  docker: z.enum(['running', 'stopped']).optional(),
  rootDisk: z.array(z.string()),
  init: z.object({ code: z.number(), endsAtMs: z.number(), lost: z.boolean() }).nullable(),
  console: z.array(z.object({ atMs: z.number(), text: z.string() })),
  /** Journals of before have none. */
  initLog: z.array(z.object({ atMs: z.number(), text: z.string() })).default([]),
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

export interface Kept {
  /** By name. */
  containers: Map<string, Container>;
  /** By ref. */
  images: Map<string, KeptImage>;
  /** What registries were given, by ref. */
  pushed: Map<string, KeptImage>;
}

/** Shorter contents are written where they stand. */
const longTextLength = 200;
/** What is written at once when all is written anew. */
const pieceLength = 1_000_000;
/** Lines beyond twice what is held that make it worth writing anew. */
const spareLines = 10_000;

export class Journal {
  readonly #file: string;
  #descriptor: number;
  #lines = 0;
  #numbers = new Map<string, number>();

  private constructor(file: string) {
    this.#file = file;
    mkdirSync(path.dirname(file), { recursive: true });
    this.#descriptor = openSync(file, 'a', 0o600);
  }

  /** Reads what the file says, and writes it anew. Throws when it is not such a file. */
  static open(file: string, nameOf: (container: Container) => string): { journal: Journal; kept: Kept } {
    const kept = existsSync(file) ? read(file, nameOf) : nothing();
    const journal = new Journal(file);
    journal.#rewrite(kept);
    return { journal, kept };
  }

  put(container: Container, kept: Kept): void {
    this.#append(this.#put(container), kept);
  }

  remove(name: string, kept: Kept): void {
    this.#append(queueEntries({ gone: name }), kept);
  }

  putImage(ref: string, image: KeptImage, kept: Kept): void {
    this.#append(queueEntries({ image: ref, ...image }), kept);
  }

  putPushed(ref: string, image: KeptImage, kept: Kept): void {
    this.#append(queueEntries({ pushed: ref, ...image }), kept);
  }

  removeImage(ref: string, kept: Kept): void {
    this.#append(queueEntries({ imageGone: ref }), kept);
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  #append(text: string, kept: Kept): void {
    writeSync(this.#descriptor, text);
    this.#lines++;
    if (this.#lines > 2 * sizeOf(kept) + spareLines) this.#rewrite(kept);
  }

  #rewrite(kept: Kept): void {
    const { containers, images, pushed } = kept;
    this.#numbers = new Map();
    const beside = `${this.#file}.new`;
    const descriptor = openSync(beside, 'w', 0o600);
    let text = '';
    for (const [ref, image] of images) text += queueEntries({ image: ref, ...image });
    for (const [ref, image] of pushed) text += queueEntries({ pushed: ref, ...image });
    for (const container of containers.values()) {
      text += this.#put(container);
      if (text.length < pieceLength) continue;
      writeSync(descriptor, text);
      text = '';
    }
    writeSync(descriptor, text);
    renameSync(beside, this.#file);
    closeSync(this.#descriptor);
    this.#descriptor = descriptor;
    this.#lines = sizeOf(kept);
  }

  /** Its line, after those of the texts that it is the first to need. */
  #put(container: Container): string {
    let texts = '';
    const files = container.spec.files.map((file) => {
      if (file.content.length < longTextLength) return file;
      let number = this.#numbers.get(file.content);
      if (number === undefined) {
        number = this.#numbers.size;
        this.#numbers.set(file.content, number);
        texts += queueEntries({ text: number, content: file.content });
      }
      return { ...file, content: number };
    });
    const readyAtMs = Number.isFinite(container.readyAtMs) ? container.readyAtMs : null;
    const init = container.init ?? null;
    const spec = { ...container.spec, files };
    return (
      texts +
      queueEntries({
        container: { ...container, spec, init, readyAtMs, rootDisk: [...container.rootDisk], script: undefined },
      })
    );
  }
}

export const nothing = (): Kept => ({ containers: new Map(), images: new Map(), pushed: new Map() });

const sizeOf = ({ containers, images, pushed }: Kept): number => containers.size + images.size + pushed.size;

const queueEntries = (value: unknown): string => `${JSON.stringify(value)}\n`;

function read(file: string, nameOf: (container: Container) => string): Kept {
  const kept = nothing();
  const texts = new Map<number, string>();
  const lines = readFileSync(file, 'utf8').split('\n');
  lines.pop(); // what follows the last newline: nothing, or a line that was cut off
  for (const [index, text] of lines.entries()) {
    const line = parse(file, index + 1, text);
    if ('text' in line) texts.set(line.text, line.content);
    else if ('gone' in line) kept.containers.delete(line.gone);
    else if ('image' in line) kept.images.set(line.image, imageOf(line));
    else if ('pushed' in line) kept.pushed.set(line.pushed, imageOf(line));
    else if ('imageGone' in line) kept.images.delete(line.imageGone);
    else {
      const container = revive(line.container, texts);
      kept.containers.set(nameOf(container), container);
    }
  }
  return kept;
}

const imageOf = ({ rootDisk, bytes, saved }: KeptImage): KeptImage => ({ rootDisk, bytes, saved });

function parse(file: string, number: number, text: string): z.infer<typeof journalLine> {
  try {
    return journalLine.parse(JSON.parse(text));
  } catch (cause) {
    throw new Error(
      `${file}, line ${number}, is not what a simulated engine wrote; remove the file to begin with none`,
      {
        cause,
      },
    );
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
    rootDisk: new Set(line.rootDisk),
    script: scriptOf(spec),
  };
}
