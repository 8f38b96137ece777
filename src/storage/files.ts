/**
 * File access without an instance: `path` is relative to `root`, the result of `Storage.mount`.
 * Owners write there at the same time, so no link is followed, and only files and folders are
 * opened (`files/walk.ts`). A `FileFault` is the caller's mistake or a full disk.
 */
export { makeFolder, remove } from './files/change.ts';
export { FileFault } from './files/fault.ts';
export { listFolder, type FolderPage } from './files/list.ts';
export { withFile } from './files/read.ts';
export { uploadFolder, writeFile, type Upload } from './files/write.ts';
