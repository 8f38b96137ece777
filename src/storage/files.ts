/** File access without an instance. */
export type { DiskFiles } from './files/disk-files.ts';
export { FileFault } from './files/fault.ts';
export { folderFiles } from './files/folder-files.ts';
export type { FolderPage } from './files/list.ts';
export type { OpenFile } from './files/read.ts';
export { discardUploads, largestShellEntries, shellFiles, type OpenShell } from './files/shell-files.ts';
export { uploadFolder, type Upload } from './files/write.ts';
