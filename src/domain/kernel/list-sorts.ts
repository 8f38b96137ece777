/** Orders in which lists of instances, volumes and accounts are shown. */
export const instanceSorts = ['createdAt', 'name', 'status', 'price'] as const;
export const volumeSorts = ['createdAt', 'name', 'size', 'usage'] as const;
export const accountSorts = ['createdAt', 'username', 'email', 'balance'] as const;

type By = (typeof instanceSorts | typeof volumeSorts | typeof accountSorts)[number];

export interface ListSort<Of extends By = By> {
  by: Of;
  order: 'asc' | 'desc';
}

export type InstanceSort = ListSort<(typeof instanceSorts)[number]>;
export type VolumeSort = ListSort<(typeof volumeSorts)[number]>;
export type AccountSort = ListSort<(typeof accountSorts)[number]>;
