/** Addresses of the link between API and gateway process. */
import { hkdfSync } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errorText } from '../domain/kernel/unknown-error.ts';
import type { LinkAddress } from '../edge/link/link-address.ts';
import type { Config } from './config.ts';

const KEY_BYTES = 32;
const MIN_SECRET_LENGTH = 32;

export interface LinkAddresses {
  /** The API's: carries routes, notebook tokens and credentials of regions. */
  api: LinkAddress;
  /** The gateway's: carries input and output of terminals. */
  gateway: LinkAddress;
}

/** Sockets in the data folder, or TCP. Throws an Error that names the setting. */
export async function linkAddresses({
  dataFolder,
  role,
  link,
}: Pick<Config, 'dataFolder' | 'role' | 'link'>): Promise<LinkAddresses> {
  if (link === null) return { api: join(dataFolder, 'gateway.sock'), gateway: join(dataFolder, 'terminals.sock') };
  const key = await readKey(link.secretFile);
  const own = { ...link.listen, key };
  const peer = { ...link.peer, key };
  return role === 'api' ? { api: own, gateway: peer } : { api: peer, gateway: own };
}

async function readKey(file: string): Promise<Uint8Array> {
  const secret = await readFile(file, 'utf8').then(
    (text) => text.trim(),
    (error: unknown) => {
      throw new Error(`BERTH_LINK_SECRET_FILE: ${file} cannot be read: ${errorText(error)}`);
    },
  );
  if (secret.length < MIN_SECRET_LENGTH) {
    const right = `at least ${MIN_SECRET_LENGTH} random ones, such as those of "openssl rand -base64 36"`;
    throw new Error(`BERTH_LINK_SECRET_FILE: ${file} has ${secret.length} characters; write ${right}.`);
  }
  return new Uint8Array(hkdfSync('sha256', secret, '', 'link of API and gateway', KEY_BYTES));
}
