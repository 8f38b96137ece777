/** Disks that processes of the host hold. */
import { z } from 'zod';
import { diskKinds } from '../../domain/storage/disk.ts';
import { answer, empty, integer, text, unixMs } from '../common.ts';
import { operatorReadRoute } from '../route.ts';

const heldDisk = answer('HeldDisk', {
  kind: z.enum(diskKinds).describe('Kind of disk'),
  id: text('Volume, snapshot or instance ID'),
  regionId: text('Region ID'),
  ownerId: text('Account ID'),
  pool: text('Pool, which counts the disk until it is gone'),
  sizeGB: integer('Size in GB'),
  since: unixMs('First failed removal since the server started'),
  processes: z
    .array(answer('HostProcess', { pid: integer('Process ID on the host'), command: text('Name of the program') }))
    .describe('At most five processes that hold the disk; empty if none was found'),
});

export const heldDiskListAnswer = answer('ListHeldDisksAnswer', {
  disks: z.array(heldDisk).describe('Disks that are still held'),
});

export const heldDiskRoutes = {
  listHeldDisks: operatorReadRoute('/admin/disk/held', empty, heldDiskListAnswer, {
    summary: 'List disks that processes of the host keep from being removed (administrators)',
  }),
} as const;
