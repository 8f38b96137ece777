/** Checks new passwords. The common ones are loaded at the first check: few servers need them. */
import { passwordFault, type PasswordOwner } from '../../domain/access/password.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';

let loading: Promise<ReadonlySet<string>> | null = null;

const load = async (): Promise<ReadonlySet<string>> => {
  const { dictionary } = await import('@zxcvbn-ts/language-common');
  return new Set(dictionary['passwords-common']);
};

export const newPasswordFault = async (password: string, owner: PasswordOwner): Promise<string | null> => {
  loading ??= load();
  return passwordFault(password, owner, await loading);
};

export async function refuseWeakPassword(field: string, password: string, owner: PasswordOwner): Promise<void> {
  const fault = await newPasswordFault(password, owner);
  if (fault !== null) throw new Refusal('field_value', `field "${field}" ${fault}`);
}
