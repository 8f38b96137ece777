/**
 * # Files of a disk
 *
 * File access without an instance. `root` is the folder returned by `Storage.mount`, `path` is
 * relative to it (`domain/file-path.ts`). Owners write there as root from inside an instance at the
 * same time, so links are never followed, and only files and folders are opened (`files/walk.ts`).
 * A mistake of the caller or a full disk rejects with a `FileFault`; other errors are faults of the
 * host.
 */
export { makeFolder, remove } from './files/change.ts';
export { FileFault } from './files/fault.ts';
export { listFolder, type FolderPage } from './files/list.ts';
export { withFile } from './files/read.ts';
export { uploadFolder, writeFile, type Upload } from './files/write.ts';
