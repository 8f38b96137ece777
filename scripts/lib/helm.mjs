/** Helm for the tests of the chart, built once from public Go modules. */
import { ensureGoProgram } from './go.mjs';

export const ensureHelm = () =>
  ensureGoProgram({
    title: 'Helm',
    leastGo: '1.26.0',
    name: 'helm.sh/helm/v3@v3.22.0',
    sum: 'h1:n1if5iQgHYsujPAcO5oonH/KiSNUmqmUF0iGVjSF3AU=',
  });
