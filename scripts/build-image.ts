/** Builds the notebook image in the engine, and pushes or saves it under another name. */
import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import { endpointOf, makeDockerClient } from '../src/docker/docker-client.ts';
import { parseImageRef } from '../src/domain/regions/image-ref.ts';
import { buildRecipe } from '../src/engines/docker/image/build.ts';
import { readRecipe, recipeRef } from '../src/engines/docker/image/recipes.ts';
import { usualAddress } from './lib/engine-address.mjs';
import { findProgram, runCommand, runInFront, say, Unready } from './lib/run.mjs';

const BUILD_MS = 3_600_000;
const FOLDER = join(import.meta.dirname, '../images/notebook');

const word = { type: 'string' } as const;
const { values, positionals } = parseArgs({ allowPositionals: true, options: { save: word, variant: word } });
const { save, variant } = values;

await runCommand(async () => {
  const [name = ''] = positionals;
  const parsed = parseImageRef(name);
  if (name.includes('@')) throw new Unready(`${name} has a digest, which the registry makes: leave it out.`);
  if (typeof parsed === 'string') throw new Unready(`${name} is no name for the image: ${parsed}.`);
  const { ref } = parsed;
  const recipe = await readRecipe(FOLDER, variant && `notebook-${variant}`);
  const { docker, stop } = makeDockerClient(endpointOf(process.env['DOCKER_HOST'] || usualAddress));
  try {
    say(`Building ${recipeRef(recipe)}: some minutes, once.`);
    const signal = AbortSignal.timeout(BUILD_MS);
    const onWarning = (why: string): void => say(`  The image has the Python packages of Debian: ${why}.`);
    await buildRecipe({
      docker,
      recipe,
      folder: FOLDER,
      signal,
      onProgress: () => {},
      onWarning,
      environment: process.env,
    });
    const end = ref.lastIndexOf(':');
    await docker.getImage(recipeRef(recipe)).tag({ repo: ref.slice(0, end), tag: ref.slice(end + 1) });
    if (save === undefined) return push(ref);
    await pipeline(await docker.getImage(ref).get(), createWriteStream(save));
    say(`${save} has the image ${ref}. On each node: ctr --namespace k8s.io images import ${save}`);
    return 0;
  } finally {
    stop();
  }
});

/** The program has the logins of registries. */
async function push(ref: string): Promise<number> {
  const command = findProgram('docker') ?? findProgram('podman');
  if (command === undefined) throw new Unready('No docker and no podman to push with: name a file with --save.');
  return (await runInFront({ command, args: ['push', ref] })).code;
}
