/** Views of the volumes, as their addresses hold them. */
import { oneOf, textOf } from '../../parts/address.ts';

export interface VolumesSearch {
  q?: string;
  /** Left out: the volumes. */
  tab?: 'snapshots';
  /** Field, with `-` before it for the largest first; left out: the newest first. */
  sort?: string;
  /** The form of a new volume is open. */
  create?: true;
}

export const readVolumesSearch = ({ q, tab, sort, create }: Record<string, unknown>): VolumesSearch => ({
  q: textOf(q),
  tab: oneOf(tab, ['snapshots']),
  sort: sortOf(sort) === undefined ? undefined : textOf(sort),
  create: create === true ? true : undefined,
});

const sortsOfColumns = ['name', 'size', 'usage'] as const;
export type VolumeSortBy = (typeof sortsOfColumns)[number];

export const textOfSort = (by: VolumeSortBy, isDescending: boolean): string => `${isDescending ? '-' : ''}${by}`;

/** Order of the API that a text of the address names. */
export function sortOf(sort: unknown): { by: VolumeSortBy; order: 'asc' | 'desc' } | undefined {
  if (typeof sort !== 'string') return undefined;
  const by = oneOf(sort.replace(/^-/, ''), sortsOfColumns);
  return by && { by, order: sort.startsWith('-') ? 'desc' : 'asc' };
}

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
