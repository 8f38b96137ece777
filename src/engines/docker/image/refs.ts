/** Adds the tag `latest`: without a tag an engine pulls all tags. */
export function splitRef(ref: string): { repository: string; tag: string } {
  const at = ref.indexOf('@');
  if (at !== -1) return { repository: ref.slice(0, at), tag: ref.slice(at + 1) };
  const colon = ref.lastIndexOf(':');
  if (colon > ref.lastIndexOf('/')) return { repository: ref.slice(0, colon), tag: ref.slice(colon + 1) };
  return { repository: ref, tag: 'latest' };
}

/** The ref as the engine lists it: with a tag, without the default registry's names. */
export function listedRef(ref: string): string {
  const { repository, tag } = splitRef(ref);
  return `${repository.replace(/^(docker\.io|index\.docker\.io)\//, '').replace(/^library\//, '')}:${tag}`;
}

export const refPath = (ref: string): string => ref.split('/').map(encodeURIComponent).join('/');
