/** A small file of its owner alone that is there whole or not at all, also after a crash. */
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

export async function writeWhole(file: string, content: string | Uint8Array): Promise<void> {
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
  // The new name is only as lasting as the folder that holds it.
  const folder = await open(dirname(file), 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
