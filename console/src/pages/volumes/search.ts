/** Views of the volumes, as their addresses hold them. */
import { oneOf, textOf } from '../../parts/address.ts';

export interface VolumesSearch {
  q?: string;
  /** The form of a new volume is open. */
  create?: true;
}

export const readVolumesSearch = ({ q, create }: Record<string, unknown>): VolumesSearch => ({
  q: textOf(q),
  create: create === true ? true : undefined,
});

export const volumeTabs = ['overview', 'files', 'snapshots'] as const;
export type VolumeTab = (typeof volumeTabs)[number];

export interface VolumeSearch {
  /** Left out: the overview. */
  tab?: Exclude<VolumeTab, 'overview'>;
  /** Folder, relative to the volume. */
  path?: string;
}

export const readVolumeSearch = ({ tab, path }: Record<string, unknown>): VolumeSearch => ({
  tab: oneOf(tab, ['files', 'snapshots']),
  path: textOf(path),
});
