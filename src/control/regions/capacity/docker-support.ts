import { volumeTypeOfDisk } from '../../../domain/storage/pool.ts';
import type { Capabilities } from '../../../engines/contract.ts';
import type { RegionDrivers } from '../../kernel/ports.ts';
import { poolForType } from '../../storage/ports.ts';

type DockerSupport = Pick<Capabilities, 'dockerInside' | 'whyNoDocker'>;

const UNLIMITED =
  'its disks are plain folders, which cannot limit the disk of a Docker; the operator can run Berth as root for disks with a limit';

/** Requires an engine that runs Docker inside instances, and a pool that limits its disks. */
export function dockerSupport(drivers: Pick<RegionDrivers, 'pools'>, engine: DockerSupport): DockerSupport {
  if (!engine.dockerInside)
    return { dockerInside: false, whyNoDocker: engine.whyNoDocker ?? 'its engine does not support it' };
  const { storage } = poolForType(drivers, volumeTypeOfDisk('docker'));
  return storage.capabilities().dockerInside ? { dockerInside: true } : { dockerInside: false, whyNoDocker: UNLIMITED };
}
