/** Names of images, as Docker reads them. Pure. */

/** Without a tag an engine would fetch all there are. */
export function splitRef(ref: string): { repository: string; tag: string } {
  const at = ref.indexOf('@');
  if (at !== -1) return { repository: ref.slice(0, at), tag: ref.slice(at + 1) };
  const colon = ref.lastIndexOf(':');
  if (colon > ref.lastIndexOf('/')) return { repository: ref.slice(0, colon), tag: ref.slice(colon + 1) };
  return { repository: ref, tag: 'latest' };
}

/** As the engine lists it: with a tag, and without the names of the registry that it takes for granted. */
export function listedRef(ref: string): string {
  const { repository, tag } = splitRef(ref);
  return `${repository.replace(/^(docker\.io|index\.docker\.io)\//, '').replace(/^library\//, '')}:${tag}`;
}

/** As a path of the engine's API. */
export const refPath = (ref: string): string => ref.split('/').map(encodeURIComponent).join('/');
