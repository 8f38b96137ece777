/** Traefik for `npm run test:world`, built once from public Go modules. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { buildInto, cacheFolder, ensureGo, runGo } from './go.mjs';
import { say, Unready } from './run.mjs';

const leastGo = '1.25.0';
const name = 'github.com/traefik/traefik/v3@v3.6.12';
const sum = 'h1:6pe4s7aaDTQs+AsF7KP3sM/xnq7zOVvibRQe5tw9eFo=';

/**
 * The program, which is built first if need be.
 * @returns {Promise<string | { why: string }>}
 */
export async function ensureTraefik() {
  const hash = createHash('sha256').update(JSON.stringify([leastGo, name, sum]));
  const target = path.join(cacheFolder('traefik'), hash.digest('hex').slice(0, 16));
  const program = path.join(target, 'traefik');
  if (existsSync(program)) return program;
  const go = await ensureGo(leastGo);
  if (typeof go !== 'string') return go;
  try {
    const { Dir, Sum } = JSON.parse(await runGo({ go, cwd: '/' }, 'mod', 'download', '-json', name));
    if (Sum !== sum) throw new Unready(`${name} has the sum ${Sum}, and must have ${sum}`);
    say(`Building Traefik for the tests: some minutes on two cores, once. It stays in ${target}.`);
    const options = ['-mod=readonly', '-buildvcs=false', '-trimpath', '-ldflags', '-s -w'];
    await buildInto(target, async (unfinished) => {
      await runGo({ go, cwd: Dir }, 'build', ...options, '-o', path.join(unfinished, 'traefik'), './cmd/traefik');
    });
    return program;
  } catch (error) {
    if (error instanceof Unready) return { why: `${name} could not be built: ${error.message}` };
    throw error;
  }
}
