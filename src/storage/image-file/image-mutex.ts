import { makeKeyedMutex } from '../../async/mutex.ts';

/** One mount, copy or clean-up at a time for each path of an image or a folder of images. */
export const imageMutex = makeKeyedMutex<string>();
