/** The chart by Helm: committed outputs of its sets of values, and values that it refuses. */
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { CHART, helm } from '../../fixtures/helm.ts';
import { bringsProgram } from '../../fixtures/programs.ts';

bringsProgram('go');

const VALUES = path.join(CHART, 'ci');
const EXPECTED = '../../expected/helm';
const sets = readdirSync(VALUES).map((file) => file.replace('-values.yaml', ''));
const valuesOf = (set: string): string[] => ['--values', path.join(VALUES, `${set}-values.yaml`)];

const render = (...args: readonly string[]): Promise<string> =>
  helm(['template', 'berth', CHART, '--namespace', 'berth', ...args]);

describe.for(sets)('%s', (set) => {
  test('passes the linter', async () => {
    const report = await helm(['lint', '--strict', '--namespace', 'berth', CHART, ...valuesOf(set)]);
    expect(report).toContain('1 chart(s) linted, 0 chart(s) failed');
  });

  test('renders what is committed', async () => {
    const rendered = await render(...valuesOf(set));
    // A secret of its own at each rendering outside of a cluster.
    const stable = rendered.replace(/^ {2}secret: [A-Za-z0-9+/]{64}$/m, '  secret: (random)');
    await expect(stable).toMatchFileSnapshot(`${EXPECTED}/${set}.yaml`);
  });
});

test('deploy/kubernetes/rbac.yaml is that of the chart', async () => {
  const rights = await render(...valuesOf('rbac-only'), '--show-only', 'templates/rbac.yaml');
  await expect(rights).toMatchFileSnapshot('../../../deploy/kubernetes/rbac.yaml');
});

const REF = 'secrets.databaseUrl.name=berth-database';
test.for([
  { what: 'no image', set: 'image.repository=', says: "'/image/repository': '' does not match" },
  { what: 'a tag in the name', set: 'image.repository=berth:1', says: "'berth:1' does not match" },
  { what: 'no storage class', set: 'instances.storageClass=', says: "at '/instances/storageClass'" },
  { what: 'a misspelled value', set: 'ingres.enabled=true', says: "additional properties 'ingres' not allowed" },
  { what: 'a setting of the chart', set: 'api.settings.BERTH_ROLE=all', says: "invalid propertyName 'BERTH_ROLE'" },
  { what: 'no setting of Berth', set: 'gateway.settings.PATH=/bin', says: "invalid propertyName 'PATH'" },
  { what: 'a Secret without its key', set: REF, says: "at '/secrets/databaseUrl': missing property 'key'" },
  { what: 'an address without scheme', set: 'apiUrl=berth.example.org', says: "at '/apiUrl'" },
  { what: 'a path of the gateway', set: 'gatewayUrl=https://a.example/b', says: "at '/gatewayUrl'" },
  { what: 'an Ingress without trust', set: 'ingress.enabled=true', says: "at '/trustedProxies': minItems" },
  { what: 'a route without a Gateway', set: 'httpRoute.enabled=true', says: "at '/httpRoute/parentRefs': minItems" },
  { what: 'a certificate without its Secret', set: 'tls.certificate.enabled=true', says: "at '/tls/secretName'" },
  { what: 'another login of the region', set: 'region.kubernetes.login=token', says: "at '/region/kubernetes'" },
  { what: 'an unknown type of Service', set: 'api.service.type=Public', says: "at '/api/service/type'" },
])('refuses $what', async ({ set, says }) => {
  await expect(render(...valuesOf('default'), '--set', set)).rejects.toThrow(says);
});
