/**
 * # Files of a disk
 *
 * What can be done with the files of a disk without an instance: `root` is the folder that `Storage.mount` answers, `path` is
 * relative to it (`domain/file-path.ts`). Whoever owns the disk writes there as root from inside an instance at the same time, so no
 * link is ever followed, and nothing but files and folders is ever opened (`files/walk.ts` says how). What is not done for the
 * caller's fault or a full disk rejects with a `FileFault`; anything else thrown is a fault of the host.
 */
export { makeFolder, remove } from './files/change.ts';
export { FileFault } from './files/fault.ts';
export { listFolder, type FolderPage } from './files/list.ts';
export { withFile } from './files/read.ts';
export { uploadFolder, writeFile, type Upload } from './files/write.ts';
