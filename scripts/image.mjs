/** `npm run image`: builds the notebook image, for a registry or for the nodes of a cluster. */
import { readArguments } from './lib/arguments.mjs';
import { ensureDependencies } from './lib/dependencies.mjs';
import { ensureEngine } from './lib/engine.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { becomeProgram, runCommand, Unready } from './lib/run.mjs';

const USAGE = `npm run image -- registry.example.org/notebook:1   builds the notebook image and pushes it under that name

                --save FILE         writes it to a file instead, as \`docker save\` does
                --variant NAME      small or pytorch`;

await runCommand(async () => {
  const word = /** @type {const} */ ({ type: 'string' });
  const options = { save: word, variant: word };
  const { positionals, values } = readArguments(USAGE, { options, allowPositionals: true });
  const variant = values['variant'];
  if (positionals.length !== 1) throw new Unready(`One name of an image is needed.\n\n${USAGE}`);
  if (variant !== undefined && variant !== 'small' && variant !== 'pytorch')
    throw new Unready(`--variant is ${JSON.stringify(variant)}; it must be small or pytorch.\n\n${USAGE}`);
  await ensureDependencies();
  const address = await ensureEngine();
  if (address === undefined) throw new Unready('The image is built in a container engine, and none answers.');
  const node = findNode24();
  const args = ['scripts/build-image.ts', ...process.argv.slice(2)];
  return becomeProgram({ command: node, args, env: { ...envWithNode(node), DOCKER_HOST: address } });
});
