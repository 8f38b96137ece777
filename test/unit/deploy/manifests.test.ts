/** The image and the manifests of an installation in a cluster fit each other and the program. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { loadAllYaml } from '@kubernetes/client-node';
import { beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { program } from '../../../scripts/lib/program.mjs';
import { regionSettings } from '../../../src/contract/regions/region-admin.ts';
import { faultOfRegionSettings } from '../../../src/domain/regions/region-settings.ts';
import { serverPagePaths } from '../../../src/edge/http/server-pages.ts';
import { readConfig } from '../../../src/main/config.ts';

const ROOT = join(import.meta.dirname, '../../..');
const FOLDER = join(ROOT, 'deploy/kubernetes');

const named = z.looseObject({
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), namespace: z.string().optional() }),
});
const container = z.looseObject({
  name: z.string(),
  image: z.string(),
  env: z.array(z.looseObject({ name: z.string(), value: z.string().optional() })),
  envFrom: z.array(z.looseObject({ configMapRef: z.looseObject({ name: z.string() }) })),
  ports: z.array(z.looseObject({ name: z.string(), containerPort: z.number() })),
  volumeMounts: z.array(z.looseObject({ name: z.string(), mountPath: z.string() })),
  securityContext: z.looseObject({ readOnlyRootFilesystem: z.boolean() }),
});
const deployment = named.extend({
  kind: z.literal('Deployment'),
  spec: z.looseObject({
    replicas: z.number(),
    strategy: z.looseObject({ type: z.string() }),
    template: z.looseObject({
      spec: z.looseObject({
        serviceAccountName: z.string(),
        enableServiceLinks: z.boolean(),
        securityContext: z.looseObject({ runAsUser: z.number(), fsGroup: z.number() }),
        containers: z.array(container),
        volumes: z.array(
          z.looseObject({
            name: z.string(),
            persistentVolumeClaim: z.looseObject({ claimName: z.string() }).optional(),
            configMap: z.looseObject({ name: z.string() }).optional(),
          }),
        ),
      }),
    }),
  }),
});
const binding = named.extend({ subjects: z.array(z.looseObject({ name: z.string(), namespace: z.string() })) });
const kustomization = z.looseObject({
  resources: z.array(z.string()),
  configMapGenerator: z.array(
    z.looseObject({
      name: z.string(),
      namespace: z.string(),
      files: z.array(z.string()).default([]),
      literals: z.array(z.string()).default([]),
    }),
  ),
  images: z.array(z.looseObject({ name: z.string() })),
});

const read = (file: string): Promise<string> => readFile(join(FOLDER, file), 'utf8');

let customized: z.output<typeof kustomization>;
let objects: z.output<typeof named>[];
let server: z.output<typeof deployment>;
let dockerfile: string[];
beforeAll(async () => {
  customized = kustomization.parse(loadAllYaml(await read('kustomization.yaml'))[0]);
  const texts = await Promise.all(customized.resources.map(read));
  objects = texts.flatMap((text) => loadAllYaml(text)).map((object) => named.parse(object));
  server = deployment.parse(objects.find(({ kind }) => kind === 'Deployment'));
  dockerfile = (await readFile(join(ROOT, 'deploy/Dockerfile'), 'utf8')).split('\n');
});

const objectOf = (kind: string, name: string) =>
  objects.find((one) => one.kind === kind && one.metadata.name === name) ?? expect.fail(`there is no ${kind} ${name}`);
const containers = () => server.spec.template.spec.containers;
const generated = (name: string) =>
  customized.configMapGenerator.find((one) => one.name === name) ?? expect.fail(`nothing generates ${name}`);

test('the image runs the server as npm run up does, as the user that the manifests name', () => {
  const line = (start: string) => dockerfile.findLast((one) => one.startsWith(start)) ?? '';
  expect(JSON.parse(line('ENTRYPOINT').slice('ENTRYPOINT '.length))).toEqual(['./node', ...program]);
  expect(line('FROM ')).toBe('FROM scratch');
  const { runAsUser, fsGroup } = server.spec.template.spec.securityContext;
  expect(line('USER ')).toBe(`USER ${runAsUser}:${fsGroup}`);
  expect(runAsUser).toBeGreaterThan(0);
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

test('each container reads its settings, and listens on all addresses at the port that it names', async () => {
  for (const { name, env, envFrom, ports } of containers()) {
    const given = envFrom.flatMap(({ configMapRef }) => generated(configMapRef.name).literals);
    const config = readConfig({
      ...Object.fromEntries(given.map((literal) => literal.split(/=(.*)/s).slice(0, 2))),
      ...Object.fromEntries(env.flatMap((one) => (one.value === undefined ? [] : [[one.name, one.value]]))),
    });
    expect(config).toMatchObject({ engine: 'kubernetes', role: name });
    const { host, port } = config.role === 'api' ? config.listen : config.gatewayListen;
    // `*` is no address to listen on.
    expect(isIP(host)).toBeGreaterThan(0);
    expect(ports).toEqual([{ name, containerPort: port }]);
  }
  expect(containers().map(({ name }) => name)).toEqual(['api', 'gateway']);
  for (const path of JSON.stringify(containers()).matchAll(/"path":"([^"]+)"/g))
    expect(serverPagePaths).toContain(path[1]);
});

test('variables of the Services do not reach the program, which refuses unknown settings', () => {
  const { name } = objectOf('Service', 'berth').metadata;
  const variable = `${name.toUpperCase()}_PORT`;
  expect(() => readConfig({ [variable]: 'tcp://10.97.0.9:8080' })).toThrow(`${variable}: is not a setting`);
  expect(server.spec.template.spec.enableServiceLinks).toBe(false);
});

test('the region of the cluster is valid, and instances are not among the peers that may reach them', async () => {
  const region = regionSettings.parse(JSON.parse(await read(generated('berth-region').files[0] ?? '')));
  expect(faultOfRegionSettings(region)).toBeNull();
  const { namespace, peers, login, reach } = region.kubernetes ?? expect.fail('there is no cluster');
  expect({ login, reach }).toEqual({ login: 'inCluster', reach: 'podAddress' });
  expect(peers).toEqual([{ namespace: server.metadata.namespace }]);
  expect(namespace).not.toBe(server.metadata.namespace);
  for (const one of [namespace, server.metadata.namespace ?? '']) objectOf('Namespace', one);
  expect(objectOf('Role', 'berth').metadata.namespace).toBe(namespace);
});

test('the rights are those of the account that the server runs with', () => {
  const account = server.spec.template.spec.serviceAccountName;
  const { name, namespace } = objectOf('ServiceAccount', account).metadata;
  for (const kind of ['RoleBinding', 'ClusterRoleBinding'])
    expect(binding.parse(objectOf(kind, 'berth')).subjects).toMatchObject([{ name, namespace }]);
});

test('one server runs at a time, writes to its claim and /tmp alone, and what it names exists', () => {
  expect(server.spec).toMatchObject({ replicas: 1, strategy: { type: 'Recreate' } });
  const { volumes } = server.spec.template.spec;
  for (const { persistentVolumeClaim, configMap } of volumes) {
    if (persistentVolumeClaim) objectOf('PersistentVolumeClaim', persistentVolumeClaim.claimName);
    if (configMap) generated(configMap.name);
  }
  for (const { image, securityContext, volumeMounts } of containers()) {
    expect(customized.images.map(({ name }) => name)).toContain(image);
    expect(securityContext.readOnlyRootFilesystem).toBe(true);
    expect(volumeMounts.map(({ mountPath }) => mountPath)).toEqual(['/var/lib/berth', '/etc/berth', '/tmp']);
  }
});
