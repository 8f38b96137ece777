/** Disks of an instance with size, usage, and the largest files of full ones. */
import { diskIdsOf, publicDisks, type PublicDisk } from '../../domain/disk-usage.ts';
import { instanceFromRow, instanceRow } from '../../store/tables/instances.ts';
import type { Db } from '../../store/store.ts';
import { locateDisks } from '../volumes/disks.ts';
import type { Regions } from '../base/regions.ts';

/** Empty for a region without drivers here. */
export async function publicDisksOf(db: Db, regions: Regions, id: string): Promise<PublicDisk[]> {
  const row = await instanceRow(db, id);
  const drivers = regions.all().find(({ regionId }) => regionId === row?.regionId);
  if (!row || !drivers) return [];
  const instance = instanceFromRow(row);
  const disks = await locateDisks(db, drivers, diskIdsOf(instance));
  const shown = disks.map((disk) => ({ ...disk, sizeLimit: disk.storage.capabilities().sizeLimit }));
  const rootLimit = drivers.health.probe?.capabilities.rootDiskLimit === 'hard' ? 'hard' : 'soft';
  return publicDisks(instance, shown, rootLimit);
}
