/** Credentials for the registries that an account's own images are had from. Ours. */
import { z } from 'zod';
import { plainText, secret } from './common.ts';

const MAX_SERVER = 300;
const MAX_USERNAME = 300;
/** Tokens of cloud registries have some thousand characters. */
const MAX_SECRET = 16_384;

/** What a good server is, is for `domain/image-ref.ts` to say. */
export const registryCreateRequest = z.object({
  server: plainText(MAX_SERVER),
  username: plainText(MAX_USERNAME),
  secret: secret(1, MAX_SECRET),
});

const registry = z.strictObject({ id: z.string(), server: z.string(), username: z.string() });
/** The secret is never shown again. */
export const registryCreateAnswer = z.strictObject({ registry });
export const registryListAnswer = z.strictObject({
  registries: z.array(registry.extend({ createdAt: z.number().int() })),
});
