/** The image, and the committed outputs of the chart, fit each other and the program. */
import { existsSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { loadAllYaml } from '@kubernetes/client-node';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { program } from '../../../scripts/lib/program.mjs';
import { CHECK_PATHS } from '../../../src/contract/proxy-check.ts';
import { regionSettings } from '../../../src/contract/regions/region-admin.ts';
import { faultOfRegionSettings } from '../../../src/domain/regions/region-settings.ts';
import { serverPagePaths } from '../../../src/edge/http/server-pages.ts';
import { readConfig } from '../../../src/main/config.ts';

const ROOT = join(import.meta.dirname, '../../..');
const RENDERED = join(ROOT, 'test/expected/helm');
const RIGHTS = ['ServiceAccount', 'Role', 'RoleBinding', 'ClusterRole', 'ClusterRoleBinding'];

const labels = z.record(z.string(), z.string());
const named = z.looseObject({
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), namespace: z.string().optional(), labels: labels.optional() }),
});
const container = z.looseObject({
  name: z.string(),
  image: z.string(),
  env: z.array(z.looseObject({ name: z.string(), value: z.string().optional() })),
  ports: z.array(z.object({ name: z.string(), containerPort: z.number() })),
  volumeMounts: z.array(z.looseObject({ name: z.string(), mountPath: z.string(), readOnly: z.boolean().optional() })),
  securityContext: z.looseObject({ readOnlyRootFilesystem: z.boolean() }),
});
const probe = z.looseObject({
  httpGet: z.object({ path: z.string(), port: z.string(), scheme: z.string().optional() }),
});
const probes = z.looseObject({ startupProbe: probe, readinessProbe: probe, livenessProbe: probe });
const deployment = named.extend({
  spec: z.looseObject({
    replicas: z.number(),
    strategy: z.looseObject({ type: z.string() }),
    selector: z.object({ matchLabels: labels }),
    template: z.looseObject({
      metadata: z.looseObject({ labels }),
      spec: z.looseObject({
        serviceAccountName: z.string(),
        enableServiceLinks: z.boolean(),
        securityContext: z.looseObject({ runAsUser: z.number(), fsGroup: z.number() }),
        containers: z.tuple([container]),
        volumes: z.array(z.looseObject({ name: z.string() })),
      }),
    }),
  }),
});
const service = named.extend({
  spec: z.looseObject({
    selector: labels,
    ports: z.array(z.looseObject({ port: z.number(), targetPort: z.string() })),
  }),
});
const binding = named.extend({ subjects: z.array(z.looseObject({ name: z.string(), namespace: z.string() })) });
const configMap = named.extend({ data: z.object({ 'region.json': z.string() }) });

const objectsOf = async (file: string) =>
  loadAllYaml(await readFile(file, 'utf8')).map((object) => named.parse(object));
let dockerfile: string[];
beforeAll(async () => {
  dockerfile = (await readFile(join(ROOT, 'deploy/Dockerfile'), 'utf8')).split('\n');
});

test('the build gets each file that it copies, and nothing else', async () => {
  const copied = dockerfile
    .filter((line) => line.startsWith('COPY ') && !line.includes('--from='))
    .flatMap((line) => line.split(' ').slice(1, -1))
    .filter((file, at, all) => all.indexOf(file) === at);
  for (const file of copied) expect(existsSync(join(ROOT, file)), file).toBe(true);
  const ignored = (await readFile(join(ROOT, '.dockerignore'), 'utf8'))
    .split('\n')
    .filter((line) => !/^(#|$)/.test(line));
  expect(ignored[0]).toBe('*');
  expect(ignored.slice(1).toSorted()).toEqual(copied.map((file) => `!${file}`).toSorted());
});

test('variables of the Services would not reach the program, which refuses unknown settings', () => {
  expect(() => readConfig({ BERTH_PORT: 'tcp://10.97.0.9:8080' })).toThrow('BERTH_PORT: is not a setting');
});

test('deploy/kubernetes/rbac.yaml has the rights of the chart', async () => {
  const ofChart = await objectsOf(join(RENDERED, 'rbac-only.yaml'));
  const plain = await objectsOf(join(ROOT, 'deploy/kubernetes/rbac.yaml'));
  expect(plain).toEqual(ofChart.filter(({ kind }) => kind !== 'Namespace'));
  const template = await readFile(join(ROOT, 'deploy/helm/berth/templates/rbac.yaml'), 'utf8');
  // Without Helm: a rule that is added to one of both alone.
  const rules = (text: string): string[] => text.match(/^ +(?:- apiGroups|resources|verbs): .*$/gm) ?? [];
  expect(rules(await readFile(join(ROOT, 'deploy/kubernetes/rbac.yaml'), 'utf8')).toSorted()).toEqual(
    rules(template).toSorted(),
  );
});

const sets = readdirSync(RENDERED).filter((file) => !file.startsWith('rbac-only'));
describe.for(sets)('%s', (set) => {
  let objects: z.output<typeof named>[];
  let servers: z.output<typeof deployment>[];
  beforeAll(async () => {
    objects = await objectsOf(join(RENDERED, set));
    servers = objects.filter(({ kind }) => kind === 'Deployment').map((object) => deployment.parse(object));
  });
  const objectOf = (kind: string, name: string) =>
    objects.find((one) => one.kind === kind && one.metadata.name === name) ?? expect.fail(`no ${kind} ${name}`);
  const configOf = ({ env }: z.output<typeof container>) =>
    readConfig(Object.fromEntries(env.map(({ name, value }) => [name, value ?? 'postgres://by-reference'])));

  test('the image runs the server as npm run up does, as the user that the Pods name', () => {
    const line = (start: string) => dockerfile.findLast((one) => one.startsWith(start)) ?? '';
    expect(JSON.parse(line('ENTRYPOINT').slice('ENTRYPOINT '.length))).toEqual(['./node', ...program]);
    expect(line('FROM ')).toBe('FROM scratch');
    for (const { spec } of servers) {
      const { runAsUser, fsGroup } = spec.template.spec.securityContext;
      expect(line('USER ')).toBe(`USER ${runAsUser}:${fsGroup}`);
      expect(runAsUser).toBeGreaterThan(0);
      expect(spec.template.spec.enableServiceLinks).toBe(false);
    }
  });

  test('each process reads its settings, listens where its ports are, and its probes ask what answers', () => {
    const roles = servers.map(({ spec }) => {
      const [one] = spec.template.spec.containers;
      const config = configOf(one);
      expect(config).toMatchObject({ engine: 'kubernetes', role: one.name });
      const { listen } = config.link ?? expect.fail('there is no link');
      const own = config.role === 'api' ? config.listen : config.gatewayListen;
      // `*` is no address to listen on.
      for (const { host } of [own, listen]) expect(isIP(host)).toBeGreaterThan(0);
      expect(one.ports).toEqual([
        { name: one.name, containerPort: own.port },
        { name: 'link', containerPort: listen.port },
      ]);
      const isTls = (config.role === 'api' ? config.apiTls : config.gatewayTls) !== null;
      for (const { httpGet } of Object.values(
        probes.pick({ startupProbe: true, readinessProbe: true, livenessProbe: true }).strip().parse(one),
      )) {
        expect(config.role === 'api' ? serverPagePaths : [CHECK_PATHS.request]).toContain(httpGet.path);
        expect(httpGet).toMatchObject({ port: one.name, ...(isTls && { scheme: 'HTTPS' }) });
      }
      return config.role;
    });
    expect(roles).toEqual(['api', 'gateway']);
  });

  test('each process finds the link of the other, and Services select the Pods that they name', () => {
    for (const { spec } of servers) {
      const { peer } = configOf(spec.template.spec.containers[0]).link ?? expect.fail('there is no link');
      const other = servers.find((server) => server.spec !== spec) ?? expect.fail('there is no other');
      const link = service.parse(objectOf('Service', peer.host)).spec;
      expect(link.selector).toEqual(other.spec.template.metadata.labels);
      expect(link.ports).toMatchObject([{ port: peer.port, targetPort: 'link' }]);
      expect(spec.selector.matchLabels).toEqual(spec.template.metadata.labels);
    }
  });

  test('the region is valid, and instances are not among the peers that may reach them', () => {
    const text = configMap.parse(objectOf('ConfigMap', 'berth-region')).data['region.json'];
    const region = regionSettings.parse(JSON.parse(text));
    expect(faultOfRegionSettings(region)).toBeNull();
    const { namespace, peers, login, reach } = region.kubernetes ?? expect.fail('there is no cluster');
    expect({ login, reach, peers }).toEqual({
      login: 'inCluster',
      reach: 'podAddress',
      peers: [{ namespace: 'berth' }],
    });
    expect(namespace).not.toBe('berth');
    expect(objectOf('Role', 'berth').metadata.namespace).toBe(namespace);
  });

  test('the rights are those of the account that both run with', () => {
    for (const { spec } of servers) {
      const { name, namespace } = objectOf('ServiceAccount', spec.template.spec.serviceAccountName).metadata;
      for (const kind of RIGHTS.filter((one) => one.endsWith('Binding')))
        expect(binding.parse(objectOf(kind, 'berth')).subjects).toMatchObject([{ name, namespace }]);
    }
  });

  test('one API runs at a time, and the gateway, which has no claim, is replaced only once the next listens', () => {
    const [api, gateway] = servers;
    expect(api?.spec).toMatchObject({ replicas: 1, strategy: { type: 'Recreate' } });
    expect(gateway?.spec.strategy).toMatchObject({ type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0 } });
    for (const { spec } of servers) {
      const [{ securityContext, volumeMounts }] = spec.template.spec.containers;
      expect(securityContext.readOnlyRootFilesystem).toBe(true);
      const written = volumeMounts.filter(({ readOnly }) => readOnly !== true).map(({ mountPath }) => mountPath);
      expect(written).toEqual(spec === api?.spec ? ['/var/lib/berth', '/tmp'] : ['/tmp']);
      const volumes = spec.template.spec.volumes.map(({ name }) => name);
      expect(volumes.toSorted()).toEqual(volumeMounts.map(({ name }) => name).toSorted());
    }
  });
});
