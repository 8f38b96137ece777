/** The uploads of this tab. */
import { useSyncExternalStore } from 'react';
import { api } from '../../../app/api.ts';
import { queryClient } from '../../../app/query-client.ts';
import { foldersFor, joined } from './paths.ts';
import { sendFile } from './send-file.ts';
import { isOver, makeUploads, type Upload, type UploadFile } from './uploads.ts';

const GATHER_MS = 300;
const stale = new Set<string>();
let timer: number | undefined;

export const filesKey = (volumeId: string) => ['files', volumeId] as const;

/** Many small files are one refresh. */
function refresh(volumeId: string): void {
  stale.add(volumeId);
  timer ??= window.setTimeout(() => {
    timer = undefined;
    for (const id of stale) void queryClient.invalidateQueries({ queryKey: filesKey(id) });
    stale.clear();
  }, GATHER_MS);
}

export const uploads = makeUploads({ send: sendFile, onDone: refresh });

export const useUploads = (volumeId: string): Upload[] =>
  useSyncExternalStore(uploads.subscribe, uploads.list).filter((one) => one.volumeId === volumeId);

// Leaving the console ends the uploads: the browser asks first.
window.addEventListener('beforeunload', (event) => {
  if (uploads.list().some((one) => !isOver(one) && one.state !== 'asks')) event.preventDefault();
});

/** Creates the folders that the files need, then queues the files. */
export async function startUpload(volumeId: string, folder: string, files: readonly UploadFile[]): Promise<void> {
  const placed = files.map(({ path, file }) => ({ path: joined(folder, path), file }));
  const needed = foldersFor(
    placed.map(({ path }) => path),
    folder,
  );
  for (const path of needed) await api.createFolder({ id: volumeId, path });
  if (needed.length > 0) refresh(volumeId);
  uploads.add(volumeId, placed);
}
