/** Writes a small 0600 file atomically and durably. */
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

export async function writeAtomically(file: string, content: string | Uint8Array): Promise<void> {
  const fresh = `${file}.new`;
  await rm(fresh, { force: true });
  const handle = await open(fresh, 'wx', 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(fresh, file);
  // The rename is durable only after the folder is synced.
  const folder = await open(dirname(file), 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
