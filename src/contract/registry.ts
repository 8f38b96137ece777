/** Credentials for registries of an account's own images. */
import { z } from 'zod';
import { named, plainText, secret, text, unixMs } from './common.ts';

const MAX_SERVER = 300;
const MAX_USERNAME = 300;
/** Tokens of cloud registries have thousands of characters. */
const MAX_SECRET = 16_384;

export const registryCreateRequest = named(
  'CreateRegistryRequest',
  z.object({
    server: plainText(MAX_SERVER).describe('Registry host, such as `ghcr.io`'),
    username: plainText(MAX_USERNAME).describe('User name at the registry'),
    secret: secret(1, MAX_SECRET).describe('Password or token at the registry'),
  }),
);

const registryFields = {
  id: text('ID of the credentials'),
  server: text('Registry host'),
  username: text('User name at the registry'),
};
export const registryCreateAnswer = named(
  'CreateRegistryAnswer',
  z.strictObject({
    registry: named('NewRegistry', z.strictObject(registryFields)).describe('The credentials, without the secret'),
  }),
);
const registry = named('Registry', z.strictObject({ ...registryFields, createdAt: unixMs('Creation time') }));
export const registryListAnswer = named(
  'ListRegistriesAnswer',
  z.strictObject({ registries: z.array(registry).describe('Credentials, without secrets') }),
);
