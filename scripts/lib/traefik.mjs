/** Traefik for `npm run test:world`, built once from public Go modules. */
import { ensureGoProgram } from './go.mjs';

export const ensureTraefik = () =>
  ensureGoProgram({
    title: 'Traefik',
    leastGo: '1.25.0',
    name: 'github.com/traefik/traefik/v3@v3.6.12',
    sum: 'h1:6pe4s7aaDTQs+AsF7KP3sM/xnq7zOVvibRQe5tw9eFo=',
  });
