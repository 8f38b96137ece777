/** The sidecar of Docker inside, with a stand-in for its image. */
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { instanceIdOf, userId } from '../../../src/domain/kernel/ids.ts';
import { podTemplate } from '../../../src/engines/kubernetes/manifests/pod-template.ts';
import { until } from '../../fixtures/server-process.ts';
import { startCluster, type Cluster } from '../cluster/cluster.ts';
import { busyboxArchive, imageArchive } from '../cluster/image-archive.ts';

const POD = 'with-docker';
const MAIN_IMAGE = 'berth.local/main:1';
const DOCKER_IMAGE = 'berth.test/docker-inside:1';

let cluster: Cluster;

beforeAll(async () => {
  cluster = await startCluster({ addons: [] });
  const links = Object.fromEntries(['sh', 'ls', 'sleep'].map((name) => [`bin/${name}`, 'busybox']));
  const daemon = Buffer.from(`#!/bin/sh\n: >/srv/docker/began\ntrap 'exit 0' TERM\nsleep 3600 & wait\n`);
  const files = { 'bin/busybox': await readFile('/bin/busybox'), 'usr/local/sbin/docker-inside': daemon };
  await cluster.importImage(imageArchive({ name: DOCKER_IMAGE, files, links }));
});
afterAll(() => cluster?.stop());

/** The Pod of an instance, with folders of the Pod for its claims and its Secret. */
function podWithDocker(): object {
  const { spec } = podTemplate(
    {
      id: instanceIdOf('44444444-4444-4444-8444-444444444444'),
      ownerId: userId('33333333-3333-4333-8333-333333333333'),
      generation: 1,
      hostname: POD,
      imageRef: MAIN_IMAGE,
      cpuMilli: 100,
      memoryMiB: 64,
      pidsLimit: 64,
      gpus: 0,
      mounts: [],
      docker: { storage: 'docker' },
      nodePorts: [],
      nodePortAddress: '',
      files: [],
    },
    {
      installation: '11111111-1111-4111-8111-111111111111',
      settings: {
        login: 'inCluster',
        namespace: 'default',
        reach: 'podAddress',
        networkPolicies: false,
        userNamespaces: false,
        privilegedDocker: { image: DOCKER_IMAGE },
      },
      hasPullSecret: false,
      can: { restartPolicies: true, storageLimits: true },
    },
  );
  const volumes = spec?.volumes?.map((volume) =>
    volume.persistentVolumeClaim || volume.projected ? { name: volume.name, emptyDir: {} } : volume,
  );
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name: POD }, spec: { ...spec, volumes } };
}

const field = (path: string): Promise<string> => cluster.kubectl(['get', 'pod', POD, '-o', `jsonpath={${path}}`]);
const ofDaemon = (): Promise<string> => cluster.kubectl(['exec', POD, '-c', 'docker', '--', 'ls', '/srv/docker']);

test('begins its daemon with the run of the instance, not while the node pulls the image', async () => {
  await cluster.apply(podWithDocker());
  await until(
    () => field('.status.containerStatuses[0].state.waiting.reason'),
    (reason) => reason.startsWith('ErrImage'),
  );
  expect(await field('.status.initContainerStatuses[0].state.running.startedAt')).not.toBe('');
  expect(await ofDaemon()).toBe('');
  await cluster.importImage(await busyboxArchive(MAIN_IMAGE, ['sh', 'sleep']));
  await until(ofDaemon, (files) => files === 'began\n');
});
