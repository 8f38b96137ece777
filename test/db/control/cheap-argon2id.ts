import { argon2id, type Argon2id } from '../../../src/control/access/passwords.ts';

/** A real hash of a password, for a hundredth of the work: what the product's parameters cost is no concern of most tests. */
export const cheapArgon2id: Argon2id = (parameters) => argon2id({ ...parameters, memory: 64, passes: 1 });
