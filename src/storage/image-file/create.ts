/** Creation of disks in image files: empty from templates, copied by reflink or file by file. */
import { mkdir, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Consistency } from '../../domain/storage/snapshot.ts';
import { makeSemaphore } from '../../async/semaphore.ts';
import type { DiskId } from '../../domain/storage/disk.ts';
import { errorText } from '../../domain/kernel/unknown-error.ts';
import { StorageFault } from '../contract.ts';
import { diskPaths, moveDurably, requireFreeSpace, run, type DiskRoot } from '../layout.ts';
import { copyFiles } from '../trees.ts';
import {
  detachFolder,
  discardStaging,
  filesIn,
  imageIn,
  mountIn,
  mountOptions,
  readFilesBytes,
  readMetadata,
  sourceIn,
  withMounted,
  writeMetadata,
  type DiskMetadata,
} from './image-folder.ts';
import { mountImage, mountNewImage, reflink } from './image-mounts.ts';
import { allocateImage } from './sparse.ts';
import { makeTemplates, type EmptyUsage } from './templates.ts';
import { growFileSystem, makeFileSystem, readUsage } from './xfs.ts';

/** Separate limits, so that instances never wait for long copies. */
const EMPTY_LIMIT = 8;
const COPY_LIMIT = 2;

/** Disks that a starting instance waits for stay mounted. */
const staysMounted = ({ kind }: DiskId): boolean => kind !== 'volume' && kind !== 'snapshot';

/** Converts errors for missing space, or a file over the maximum size, to `full`. */
export async function withFullFault<T>(fn: () => Promise<T>): Promise<T> {
  try {
    return await fn();
  } catch (error) {
    const text = errorText(error);
    if (/ENOSPC|EFBIG|EDQUOT|No space left on device|File too large/.test(text))
      throw new StorageFault(
        'full',
        'the storage of the region has too little free space for a disk of this size',
        error,
      );
    throw error;
  }
}

interface CreateRequest {
  disk: DiskId;
  sizeGB: number;
  from: DiskId | undefined;
  signal: AbortSignal;
  thick: boolean;
}

export function makeDiskCreator(options: Pick<DiskRoot, 'root' | 'reserveShare'> & { copies: Consistency }) {
  const { root, copies } = options;
  const emptySlots = makeSemaphore(EMPTY_LIMIT);
  const copySlots = makeSemaphore(COPY_LIMIT);
  const writeEmpty = makeTemplates({ root, build: buildTemplate, discard: discardStaging });

  /** Creates in a staging folder, renamed when complete. */
  async function create(request: CreateRequest): Promise<void> {
    const { disk, from, signal } = request;
    const { folder, staging } = diskPaths(root, disk);
    await mkdir(dirname(folder), { recursive: true, mode: 0o711 });
    await discardStaging(staging);
    await mkdir(mountIn(staging), { recursive: true, mode: 0o700 });
    try {
      const metadata = await (from === undefined ? createEmpty(request, staging) : copy({ ...request, from }, staging));
      signal.throwIfAborted();
      await writeMetadata(staging, metadata);
      await moveDurably(staging, folder);
    } catch (error) {
      await discardStaging(staging);
      throw error;
    }
  }

  async function createEmpty({ disk, sizeGB, thick }: CreateRequest, staging: string): Promise<DiskMetadata> {
    const { ownBytes, usedBytes } = await writeEmpty(imageIn(staging), sizeGB);
    if (thick) await allocateImage(imageIn(staging));
    if (!staysMounted(disk)) return { sizeGB, ownBytes, usedBytes, thick };
    await mountNewImage(imageIn(staging), mountIn(staging), mountOptions({ ...disk, thick }));
    return { sizeGB, ownBytes, usedBytes: null, thick };
  }

  /** Mounts the source a second time, so it may be mounted and unmounted meanwhile. */
  async function copy(request: CreateRequest & { from: DiskId }, staging: string): Promise<DiskMetadata> {
    const { disk, sizeGB, from } = request;
    const source = diskPaths(root, from).folder;
    const { ownBytes, thick } = await readMetadata(source, from);
    await mkdir(sourceIn(staging), { mode: 0o700 });
    await mountImage(imageIn(source), sourceIn(staging), mountOptions({ ...from, thick }));
    try {
      if (copies === 'live') return await copyLive(request, staging, ownBytes);
      await reflink(imageIn(source), imageIn(staging), sourceIn(staging));
    } finally {
      await run('umount', [sourceIn(staging)]);
      await rmdir(sourceIn(staging));
    }
    // Shared blocks are allocated again when written, so the copy can't be thick.
    return withMounted({ ...disk, thick: false }, staging, async () => {
      await growFileSystem(imageIn(staging), mountIn(staging), { sizeGB, ownBytes, thick: false });
      return { sizeGB, ownBytes, usedBytes: await readFilesBytes(staging, ownBytes), thick: false };
    });
  }

  async function copyLive(request: CreateRequest, staging: string, sourceOwnBytes: number): Promise<DiskMetadata> {
    const { disk, signal, thick } = request;
    await requireFreeSpace(options, (await readUsage(sourceIn(staging))).usedBytes - sourceOwnBytes);
    const empty = await createEmpty(request, staging);
    const usedBytes = await withMounted({ ...disk, thick }, staging, async () => {
      await copyFiles(join(sourceIn(staging), 'files'), filesIn(staging), signal);
      return readFilesBytes(staging, empty.ownBytes);
    });
    return { ...empty, usedBytes };
  }

  return (request: CreateRequest): Promise<void> =>
    (request.from === undefined ? emptySlots : copySlots).run(() => withFullFault(() => create(request)));
}

async function buildTemplate(folder: string, sizeGB: number): Promise<EmptyUsage & { image: string }> {
  const [image, mountPoint] = [imageIn(folder), mountIn(folder)];
  await mkdir(mountPoint, { recursive: true, mode: 0o700 });
  await makeFileSystem(image, sizeGB);
  await mountNewImage(image, mountPoint, mountOptions({ kind: 'volume', thick: false }));
  await mkdir(filesIn(folder), { mode: 0o755 });
  const { usedBytes: ownBytes } = await readUsage(mountPoint);
  await growFileSystem(image, mountPoint, { sizeGB, ownBytes, thick: false });
  const usedBytes = await readFilesBytes(folder, ownBytes);
  // The image is complete after its last unmount: any new mount namespace copies the mount.
  await detachFolder(folder);
  return { image, ownBytes, usedBytes };
}
