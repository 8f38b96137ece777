/** Resolves the volumes that a launch or a change asks to mount. */
import { volumeId } from '../../../domain/kernel/ids.ts';
import type { Mount } from '../../../domain/compute/instance.ts';
import { nestedPair, refusalOfMountPath } from '../../../domain/storage/paths.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import type { Db } from '../../../store/store.ts';
import { lockVolumes } from '../../../store/tables/volumes.ts';
import type { LaunchInput } from './instances.ts';

type RequestedMounts = Pick<LaunchInput, 'remoteStorages' | 'region'>;

function checkMountPaths(request: RequestedMounts): string[] {
  const paths = request.remoteStorages.map(({ mountPath }) =>
    mountPath.startsWith('/') ? mountPath.replace(/\/+$/, '') || '/' : mountPath,
  );
  for (const [index, path] of paths.entries()) {
    const why = refusalOfMountPath(path);
    if (why)
      throw new Refusal(
        'field_value',
        `field "remoteStorages[${index}].mountPath" is ${JSON.stringify(path.slice(0, 100))}: it ${why}`,
      );
  }
  const nested = nestedPair(paths);
  if (nested) {
    const [outer, inner] = nested;
    throw new Refusal('field_value', `field "remoteStorages" mounts ${inner} inside ${outer}; choose separate paths`);
  }
  return paths;
}

/** Locks the volumes: a delete of one waits, or comes first. */
export async function mountsOf(tx: Db, ownerId: string, request: RequestedMounts): Promise<Mount[]> {
  const paths = checkMountPaths(request);
  const ids = request.remoteStorages.map(({ remoteStorageId }) => remoteStorageId);
  const rows = new Map((await lockVolumes(tx, ownerId, [...new Set(ids)])).map((row) => [row.id, row]));
  return ids.map((id, index) => {
    const row = rows.get(id);
    const field = `remoteStorages[${index}].remoteStorageId`;
    if (!row)
      throw new Refusal(
        'not_found',
        `volume ${id} of field "${field}" not found; POST /api/storage/volume/list lists yours`,
      );
    if (row.regionId !== request.region) {
      throw new Refusal(
        'field_value',
        `field "${field}": volume ${id} is in region ${row.regionId}; launch there, or choose another volume`,
      );
    }
    const { type } = request.remoteStorages[index] ?? {};
    if (type !== row.type) {
      throw new Refusal(
        'field_value',
        `field "remoteStorages[${index}].type" is ${JSON.stringify(type)}, but volume ${id} is of type ${row.type}`,
      );
    }
    if (row.status === 'Lost')
      throw new Refusal('not_now', `volume ${id} is Lost: its disk is gone; launch without the volume`);
    if (row.status === 'Failed')
      throw new Refusal(
        'not_now',
        `volume ${id} is Failed: it could not be created; delete it, and launch without the volume`,
      );
    return { mountPath: paths[index] ?? '', volumeId: volumeId(id), volumeName: row.name, volumeType: row.type };
  });
}
