/** Stages uploads outside of the volume, then renames: a name always refers to a complete file. */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { link, lstat, mkdir, open, readdir, rename, rm, statfs, unlink, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errorCode } from '../../domain/kernel/unknown-error.ts';
import { asFault, FileFault, nullIfMissing } from './fault.ts';
import { fileInfo, type FileInfo } from './read.ts';
import { childPath, handlePath, kindOf, kindPhrases, splitPath, withFolder, withHandle } from './walk.ts';

const FILE_MODE = 0o644;

/** On the same file system as the files, but in no instance. */
export const uploadFolder = (root: string): string => join(dirname(root), 'uploads');

/** Tells own staging files from leftovers of a crashed server. */
const processTag = randomUUID();
let uploadCount = 0;

export interface Upload {
  source: AsyncIterable<Uint8Array>;
  sizeBytes: number | null;
  maxBytes: number;
  onlyNew: boolean;
}

export interface WriteResult extends FileInfo {
  created: boolean;
}

export async function writeFile(root: string, path: string, upload: Upload, signal: AbortSignal): Promise<WriteResult> {
  const { parent, name } = splitPath(path);
  return withFolder(root, parent, async (folder) => {
    const replaces = await checkTarget(folder, name, path, upload);
    await checkFreeSpace(root, upload);
    const staging = await newStagingPath(root);
    try {
      const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
      return await withHandle(await open(staging, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600), async (file) => {
        await receive(file, upload, signal);
        signal.throwIfAborted();
        if (upload.onlyNew) await linkNew(staging, folder, name, path);
        else await rename(staging, childPath(folder, name));
        await syncFolder(folder);
        // Read after the rename, which changes ctime.
        return { ...fileInfo(await file.stat({ bigint: true })), created: !replaces };
      });
    } catch (error) {
      throw asFault(error, path);
    } finally {
      await rm(staging, { force: true });
    }
  });
}

/** Refuses early; link or rename settle later races. */
async function checkTarget(folder: FileHandle, name: string, path: string, { onlyNew }: Upload): Promise<boolean> {
  const stat = await lstat(childPath(folder, name)).catch(nullIfMissing);
  if (stat === null) return false;
  const kind = kindOf(stat);
  if (kind !== 'file')
    throw new FileFault('wrongKind', `"${path}" is ${kindPhrases[kind]}; delete it, or use another name`);
  if (onlyNew) throw existsFault(path);
  return true;
}

export const existsFault = (path: string, cause?: unknown): FileFault =>
  new FileFault('exists', `"${path}" already exists; leave the header If-None-Match out to replace the file`, cause);

const fullFault = (text: string): FileFault => new FileFault('full', text);

async function checkFreeSpace(root: string, upload: Upload): Promise<void> {
  const { bavail, bsize } = await statfs(root);
  refuseTooLarge(upload, bavail * bsize);
}

export function refuseTooLarge({ sizeBytes, maxBytes }: Upload, freeBytes: number): void {
  if (sizeBytes === null) return;
  if (sizeBytes > maxBytes)
    throw fullFault(`the file has ${sizeBytes} bytes, more than the size of the volume, ${maxBytes}`);
  if (sizeBytes > freeBytes)
    throw fullFault(`the file has ${sizeBytes} bytes, more than the free space of the volume, ${freeBytes}`);
}

async function newStagingPath(root: string): Promise<string> {
  const folder = uploadFolder(root);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const leftovers = (await readdir(folder)).filter((name) => !name.startsWith(`${processTag}.`));
  for (const name of leftovers) await rm(join(folder, name), { recursive: true, force: true });
  uploadCount += 1;
  return join(folder, `${processTag}.${uploadCount}`);
}

/** Throws at the first byte past the limit, and after fewer bytes than were announced. */
export async function* checkedSource(
  { source, sizeBytes, maxBytes }: Upload,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void> {
  let bytes = 0;
  for await (const chunk of source) {
    signal.throwIfAborted();
    bytes += chunk.length;
    if (bytes > maxBytes) throw fullFault(`the file is larger than the volume, which has ${maxBytes} bytes`);
    yield chunk;
  }
  if (sizeBytes !== null && bytes !== sizeBytes)
    throw new Error(`only ${bytes} of the announced ${sizeBytes} bytes arrived`);
}

async function receive(file: FileHandle, upload: Upload, signal: AbortSignal): Promise<void> {
  for await (const chunk of checkedSource(upload, signal)) await writeAll(file, chunk);
  await file.chmod(FILE_MODE);
  await file.sync();
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.length;) at += (await file.write(chunk, at)).bytesWritten;
}

/** Two concurrent uploads: one gets `exists`, since a hard link replaces nothing. */
async function linkNew(staging: string, folder: FileHandle, name: string, path: string): Promise<void> {
  try {
    await link(staging, childPath(folder, name));
  } catch (error) {
    throw errorCode(error) === 'EEXIST' ? existsFault(path, error) : error;
  }
  await unlink(staging);
}

/** Makes a rename or removal survive a power cut. */
export async function syncFolder(folder: FileHandle): Promise<void> {
  await withHandle(await open(handlePath(folder), constants.O_RDONLY | constants.O_DIRECTORY), (real) => real.sync());
}
