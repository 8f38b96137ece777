import { makeKeyedMutex } from '../../async/mutex.ts';

/** Serializes mounts, copies and clean-up by path of an image or of a folder of images. */
export const imageMutex = makeKeyedMutex<string>();
