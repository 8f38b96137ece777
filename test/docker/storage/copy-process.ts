/**
 * Copies a disk in a process that a test kills: `copy-process.ts directory|live|atomic <root>
 * <from> <to>`.
 */
import type { DiskId } from '../../../src/domain/storage/disk.ts';
import { makeDirectoryStorage } from '../../../src/storage/directory/directory.ts';
import { makeImageFileStorage } from '../../../src/storage/image-file/image-file.ts';

const [kind, root = '', from = '', to = ''] = process.argv.slice(2);
const at = { root, installation: 'ours' };
const storage =
  kind === 'directory'
    ? makeDirectoryStorage(at)
    : makeImageFileStorage({ ...at, copies: kind === 'atomic' ? 'atomic' : 'live' });
const volume = (id: string): DiskId => ({ kind: 'volume', id });

await storage.create(volume(to), 2, new AbortController().signal, volume(from));
