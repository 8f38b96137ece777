/** Mounted as a folder: a file mounted by itself would stay the old one after a rename. */
import { randomUUID } from 'node:crypto';
import { chmod, mkdir, open, readFile, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import type { ControlFile } from '../../contract.ts';

export const SOCKETS = 'sockets';

const FILE_NAME = /^[A-Za-z0-9_][A-Za-z0-9._-]*$/;

export interface ControlFiles {
  /** Source of the mount: a folder of this machine, or a volume of an engine elsewhere. */
  source(id: InstanceId): string;
  /** Makes the source hold exactly these files; writes only differing ones. */
  write(id: InstanceId, files: readonly ControlFile[], signal: AbortSignal): Promise<void>;
  removeSockets(id: InstanceId): Promise<void>;
  /** After the container: it mounts the source. Absent is success. */
  remove(id: InstanceId, signal: AbortSignal): Promise<void>;
}

export function requireFileNames(files: readonly ControlFile[]): void {
  const invalid = files.find(({ name }) => !FILE_NAME.test(name) || name === SOCKETS);
  if (invalid !== undefined) throw new Error(`a control file cannot have the name "${invalid.name}"`);
}

export function makeControlFiles(stateFolder: string): ControlFiles {
  const folder = (id: InstanceId): string => join(stateFolder, id);
  return {
    source: folder,
    async write(id, files) {
      requireFileNames(files);
      const present = await listOrMake(folder(id), files);
      await Promise.all(files.map((file) => writeFile(folder(id), file, present.includes(file.name))));
      const names = new Set([...files.map(({ name }) => name), SOCKETS]);
      // Names with a leading dot are temporary files, perhaps of a concurrent write.
      const obsolete = present.filter((name) => !names.has(name) && !name.startsWith('.'));
      await Promise.all(obsolete.map((name) => rm(join(folder(id), name), { force: true, recursive: true })));
    },
    removeSockets: (id) => rm(join(folder(id), SOCKETS), { force: true, recursive: true }),
    remove: (id) => rm(folder(id), { force: true, recursive: true }),
  };
}

/** Private unless all files are for every user inside. Root inside may read any owner's file. */
export const folderModeOf = (files: readonly ControlFile[]): number =>
  files.length > 0 && files.every(({ mode }) => (mode & 0o004) !== 0) ? 0o755 : 0o700;

async function listOrMake(folder: string, files: readonly ControlFile[]): Promise<string[]> {
  // The folder above stays closed to other users of the host.
  const created = await mkdir(folder, { recursive: true, mode: 0o700 });
  await chmod(folder, folderModeOf(files));
  if (created !== undefined) return [];
  return readdir(folder);
}

async function writeFile(folder: string, { name, content, mode }: ControlFile, mayBeEqual: boolean): Promise<void> {
  const path = join(folder, name);
  if (mayBeEqual && (await isEqual(path, content, mode))) return;
  const fresh = join(folder, `.${name}.${randomUUID()}`);
  const file = await open(fresh, 'wx', mode);
  try {
    await file.writeFile(content);
    await file.chmod(mode);
  } finally {
    await file.close();
  }
  await rename(fresh, path);
}

async function isEqual(path: string, content: string, mode: number): Promise<boolean> {
  try {
    const { mode: present } = await stat(path);
    return (present & 0o777) === mode && (await readFile(path, 'utf8')) === content;
  } catch {
    return false; // an unreadable file is rewritten, and a broken folder fails the write
  }
}
