/** Writes `docs/openapi.json` (`npm run openapi`). A test fails while the file is out of date. */
import { readFile, writeFile } from 'node:fs/promises';
import { openapiDocument } from '../contract/openapi.ts';
import { errorKinds } from '../edge/http/status.ts';

export async function openapiText(): Promise<string> {
  const manifest: unknown = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'));
  const version =
    typeof manifest === 'object' && manifest !== null && 'version' in manifest ? manifest.version : undefined;
  if (typeof version !== 'string') throw new Error('package.json has no version');
  return `${JSON.stringify(openapiDocument({ version, errorKinds }), null, 2)}\n`;
}

export const openapiFile = new URL('../../docs/openapi.json', import.meta.url);

if (import.meta.main) await writeFile(openapiFile, await openapiText());
