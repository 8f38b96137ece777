/**
 * The files through which Berth speaks to an instance, a folder for each under the state folder. The folder itself is what is
 * mounted (read-only), so that a file replaced by a rename is seen inside at once; a mounted file would stay the old one.
 */
import { randomUUID } from 'node:crypto';
import { chmod, mkdir, open, readFile, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { InstanceId } from '../../../domain/ids.ts';
import type { ControlFile } from '../../contract.ts';

/** Folder among the files, for sockets of this run (`inside-sockets.ts`). */
export const SOCKETS = 'sockets';

const FILE_NAME = /^[A-Za-z0-9_][A-Za-z0-9._-]*$/;

export interface ControlFiles {
  folder(id: InstanceId): string;
  /** Brings the folder to hold exactly these, touching only what differs. */
  write(id: InstanceId, files: readonly ControlFile[]): Promise<void>;
  /** Those of a run that is over. */
  removeSockets(id: InstanceId): Promise<void>;
  remove(id: InstanceId): Promise<void>;
}

export function makeControlFiles(stateFolder: string): ControlFiles {
  const folder = (id: InstanceId): string => join(stateFolder, id);
  return {
    folder,
    async write(id, files) {
      const odd = files.find(({ name }) => !FILE_NAME.test(name) || name === SOCKETS);
      if (odd !== undefined) throw new Error(`a control file can not be called "${odd.name}"`);
      const present = await listOrMake(folder(id));
      await Promise.all(files.map((file) => writeFile(folder(id), file, present.includes(file.name))));
      const wanted = new Set([...files.map(({ name }) => name), SOCKETS]);
      // Names with a dot in front are halves of a write, perhaps of one that still goes on.
      const left = present.filter((name) => !wanted.has(name) && !name.startsWith('.'));
      await Promise.all(left.map((name) => rm(join(folder(id), name), { force: true, recursive: true })));
    },
    removeSockets: (id) => rm(join(folder(id), SOCKETS), { force: true, recursive: true }),
    remove: (id) => rm(folder(id), { force: true, recursive: true }),
  };
}

async function listOrMake(folder: string): Promise<string[]> {
  // Not readable for others of the host: a notebook's token is among the files. Inside, root may read it whoever owns it.
  const made = await mkdir(folder, { recursive: true, mode: 0o700 });
  if (made !== undefined) return [];
  await chmod(folder, 0o700);
  return readdir(folder);
}

async function writeFile(folder: string, { name, content, mode }: ControlFile, mayBeEqual: boolean): Promise<void> {
  const path = join(folder, name);
  if (mayBeEqual && (await isEqual(path, content, mode))) return;
  const fresh = join(folder, `.${name}.${randomUUID()}`);
  const file = await open(fresh, 'wx', mode);
  try {
    await file.writeFile(content);
    await file.chmod(mode); // the umask had its say at open
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
    return false; // unreadable is different: it is written anew, and what is wrong with the folder shows there
  }
}
