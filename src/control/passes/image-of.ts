/** Which image an instance's container is made from: the one it was launched with, or its own root disk once that was archived. */
import type { Instance } from '../../domain/instance.ts';

export const imageOf = ({ archive, spec }: Instance): string => archive?.ref ?? spec.image.ref;
