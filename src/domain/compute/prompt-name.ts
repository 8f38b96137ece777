/** Characters that a prompt shows of a name. */
const MAX_CHARACTERS = 24;

/** A name as a prompt shows it: no spaces, and nothing that a shell would expand. */
export function promptName(name: string): string {
  const plain = name.replaceAll(/[^\p{L}\p{N}._-]+/gu, '-').replaceAll(/^-+|-+$/g, '');
  return [...plain].slice(0, MAX_CHARACTERS).join('') || 'instance';
}
