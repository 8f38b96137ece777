import type { DockerClient } from '../../docker/docker-client.ts';
import type { EnsureImage } from '../../docker/helper-container.ts';
import type { Owner } from '../disk-names.ts';

export interface VolumeOptions extends Owner {
  client: DockerClient;
  /** Size of the pool, in units of 2³⁰ bytes. */
  sizeGB: number;
  /** Image with a shell and the tools of BusyBox or GNU, for access to files. */
  helperImage: string;
  ensureImage: EnsureImage;
  /** Files are closed after this time without a request. */
  filesIdleMs?: number;
  /** Sizes of this age are still used: a reading walks all volumes of the engine. */
  usageAgeMs?: number;
  /** Monotonic milliseconds. */
  elapsed?: () => number;
}
