/** View of the images, as its address holds it. */
export interface ImagesSearch {
  /** Left out: the images. */
  tab?: 'registries';
  /** The form of a new row of the tab is open. */
  create?: true;
}

export const readImagesSearch = ({ tab, create }: Record<string, unknown>): ImagesSearch => ({
  tab: tab === 'registries' ? tab : undefined,
  create: create === true ? true : undefined,
});
