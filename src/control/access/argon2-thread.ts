/** Thread of `argon2-threads.ts`. */
import { argon2Sync, type Argon2Parameters } from 'node:crypto';

export default (parameters: Argon2Parameters): Uint8Array => argon2Sync('argon2id', parameters);
