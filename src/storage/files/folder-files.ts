import { makeFolder, remove } from './change.ts';
import type { DiskFiles } from './disk-files.ts';
import { listFolder } from './list.ts';
import { withFile } from './read.ts';
import { writeFile } from './write.ts';

/**
 * Files in a folder of this host, opened name by name (`walk.ts`). The folder's parent, on the same
 * file system and in no instance, holds uploads (`write.ts`).
 */
export const folderFiles = (root: string): DiskFiles => ({
  list: (path, page, signal) => listFolder(root, path, page, signal),
  makeFolder: (path) => makeFolder(root, path),
  read: (path, use) => withFile(root, path, use),
  write: (path, upload, signal) => writeFile(root, path, upload, signal),
  remove: (path, options, signal) => remove(root, path, options, signal),
});
