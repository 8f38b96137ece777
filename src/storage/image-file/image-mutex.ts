import { makeKeyedMutex } from '../../async/mutex.ts';

/** Keyed by path of an image, or of a folder of images. */
export const imageMutex = makeKeyedMutex<string>();
