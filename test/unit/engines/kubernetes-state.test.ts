/** Observations and reasons of failures from the objects of a cluster. */
import { describe, expect, test } from 'vitest';
import type { Pod, StatefulSet } from '../../../src/kubernetes/api-objects.ts';
import { networkContainerOf } from '../../../src/engines/kubernetes/manifests/network-container.ts';
import { milliOf, quantityOf } from '../../../src/kubernetes/quantity.ts';
import { isRunning, observationOf } from '../../../src/engines/kubernetes/state/run-state.ts';
import { imageFault, refusalOfNode, startFailureOf } from '../../../src/engines/kubernetes/state/start-failures.ts';
import { parseReading } from '../../../src/engines/kubernetes/inside/usage-reading.ts';

type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number];

const at = '2026-11-24T02:50:44Z';
const atMs = Date.parse(at);
const lastRun = { startedAtMs: atMs - 60_000, exitCode: 0, outOfMemory: false };

const setWith = (annotations: Record<string, string> = {}): StatefulSet => ({
  metadata: {
    annotations: {
      'berth.generation': '7',
      'berth.node-ports': JSON.stringify([
        { port: 8888, nodePort: 30_002 },
        { port: 22, nodePort: 30_001 },
      ]),
      ...annotations,
    },
  },
});

const podWith = (status: Partial<ContainerStatus>, more: NonNullable<Pod['status']> = {}): Pod => ({
  spec: { nodeName: 'node-1', containers: [{ name: 'main', image: 'registry.example/lab:1' }] },
  status: {
    ...more,
    containerStatuses: [{ name: 'main', image: '', imageID: '', ready: true, restartCount: 0, ...status }],
  },
});
const running = { state: { running: { startedAt: at } } };
const terminated = (exitCode: number, reason = 'Error') => ({
  terminated: { exitCode, reason, startedAt: at, finishedAt: at },
});

const common = {
  kind: 'present',
  generation: 7,
  nodePorts: [
    { port: 22, nodePort: 30_001 },
    { port: 8888, nodePort: 30_002 },
  ],
};

describe('an observation', () => {
  test.for<{ what: string; pod: Pod | null; is: object; annotations?: Record<string, string> }>([
    { what: 'before the first run', pod: null, is: { running: false, exitCode: null, startedAtMs: 0 } },
    { what: 'while it runs', pod: podWith(running), is: { running: true, exitCode: null, startedAtMs: atMs } },
    {
      what: 'while it is pulled',
      pod: podWith({ state: { waiting: { reason: 'ContainerCreating' } } }),
      is: { running: false, exitCode: null, startedAtMs: 0, reserved: true },
    },
    {
      what: 'after its end',
      pod: podWith({ state: terminated(3) }),
      is: { running: false, exitCode: 3, startedAtMs: atMs, reserved: true },
    },
    {
      what: 'of what the cluster runs in the place of an ended container',
      pod: podWith({ ...running, restartCount: 1, lastState: terminated(3) }),
      is: { running: false, exitCode: 3, startedAtMs: atMs, reserved: true },
    },
    {
      what: 'of an ended container that its node has forgotten',
      pod: podWith({ ...running, restartCount: 4 }),
      is: { running: false, exitCode: 137, startedAtMs: atMs, reserved: true },
    },
    {
      what: 'after its end, once the Pod is leaving',
      pod: { ...podWith({ state: terminated(3) }), metadata: { deletionTimestamp: at } },
      is: { running: false, exitCode: 3, startedAtMs: atMs },
    },
    {
      what: 'after an eviction',
      pod: podWith({ state: terminated(137) }, { phase: 'Failed' }),
      is: { running: false, exitCode: 137, startedAtMs: atMs },
    },
    {
      what: 'of a back-off',
      pod: podWith({
        state: { waiting: { reason: 'CrashLoopBackOff' } },
        restartCount: 1,
        lastState: terminated(137, 'OOMKilled'),
      }),
      is: { running: false, exitCode: 137, outOfMemory: true, startedAtMs: atMs, reserved: true },
    },
    {
      what: 'after a stop',
      pod: null,
      annotations: { 'berth.last-run': JSON.stringify(lastRun) },
      is: { running: false, ...lastRun },
    },
    {
      what: 'of a run after a stop',
      pod: podWith(running),
      annotations: { 'berth.last-run': JSON.stringify(lastRun) },
      is: { running: true, exitCode: null, startedAtMs: atMs },
    },
    {
      what: 'of broken annotations',
      pod: null,
      annotations: { 'berth.last-run': '{', 'berth.node-ports': '3', 'berth.generation': 'x' },
      is: { running: false, exitCode: null, generation: 0, nodePorts: [] },
    },
  ])('$what', ({ pod, is, annotations }) => {
    expect(observationOf(setWith(annotations), pod)).toEqual({ ...common, outOfMemory: false, startedAtMs: 0, ...is });
  });

  test('is unknown while the node does not report', () => {
    const conditions = [
      { type: 'Ready', status: 'False' },
      { type: 'ContainersReady', status: 'True' },
    ];
    expect(observationOf(setWith(), podWith(running, { conditions }))).toEqual({
      kind: 'unknown',
      reason: 'the node node-1 of the instance does not answer',
    });
  });

  test('has the state of the Docker sidecar', () => {
    const pod = podWith(running);
    const sidecar = { name: 'docker', image: '', imageID: '', ready: true, restartCount: 0 };
    const withDocker = (state: ContainerStatus['state']): Pod => ({
      ...pod,
      spec: { ...pod.spec, containers: [], initContainers: [{ name: 'docker' }] },
      status: { ...pod.status, initContainerStatuses: [{ ...sidecar, ...(state && { state }) }] },
    });
    expect(observationOf(setWith(), withDocker({ running: { startedAt: at } }))).toMatchObject({ docker: 'running' });
    expect(observationOf(setWith(), withDocker({ waiting: {} }))).toMatchObject({ docker: 'stopped' });
  });

  describe('says that the cluster takes the run away', () => {
    const wanted: StatefulSet = { ...setWith({ 'berth.last-run': JSON.stringify(lastRun) }) };
    wanted.spec = { replicas: 1, serviceName: 'x', selector: {}, template: {} };
    const endsAt = '2026-11-24T02:52:00Z';
    const target = (reason: string, message = '') => ({
      conditions: [{ type: 'DisruptionTarget', status: 'True', reason, message }],
    });
    const deleted = (pod: Pod): Pod => ({
      ...pod,
      metadata: { deletionTimestamp: endsAt, deletionGracePeriodSeconds: 30 },
    });

    test.for<{
      what: string;
      pod: Pod | null;
      text: RegExp;
      graceMs: number;
      running: boolean;
      usedUp?: 'node' | 'rootDisk';
    }>([
      {
        what: 'for a Pod of higher priority',
        pod: deleted(podWith(running, target('PreemptionByScheduler'))),
        text: /higher priority/,
        graceMs: 24_000,
        running: true,
      },
      {
        what: 'by a drain',
        pod: deleted(podWith({ state: terminated(0) }, target('EvictionByEvictionAPI'))),
        text: /drained/,
        graceMs: 24_000,
        running: false,
      },
      {
        what: 'by a node without memory',
        pod: podWith(
          { state: terminated(137) },
          { phase: 'Failed', message: 'The node was low on resource: memory.', ...target('TerminationByKubelet') },
        ),
        text: /low on resource: memory/,
        graceMs: 0,
        running: false,
        usedUp: 'node',
      },
      {
        what: 'by a node that shuts down',
        pod: podWith(
          { state: terminated(137) },
          {
            phase: 'Failed',
            message: 'Pod was terminated in response to imminent node shutdown.',
            ...target('TerminationByKubelet'),
          },
        ),
        text: /node shutdown/,
        graceMs: 0,
        running: false,
      },
      {
        what: 'for its own files, though another program has deleted it since',
        pod: deleted(
          podWith(
            { state: terminated(137) },
            {
              phase: 'Failed',
              message: 'Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.',
              ...target('TerminationByKubelet'),
            },
          ),
        ),
        text: /ephemeral local storage/,
        graceMs: 24_000,
        running: false,
        usedUp: 'rootDisk',
      },
      {
        what: 'by another program',
        pod: deleted(podWith(running)),
        text: /another program/,
        graceMs: 24_000,
        running: true,
      },
      { what: 'unseen', pod: null, text: /removed from its node/, graceMs: 0, running: false },
      {
        what: 'unseen, and whose next Pod waits',
        pod: { spec: { containers: [], schedulingGates: [{ name: 'berth.start' }] }, status: { phase: 'Pending' } },
        text: /removed from its node/,
        graceMs: 0,
        running: false,
      },
    ])('$what', ({ pod, text, graceMs, running: isRun, usedUp }) => {
      const seen = observationOf(wanted, pod);
      expect(seen).toMatchObject({ kind: 'present', running: isRun });
      const own = usedUp ? { usedUp } : {};
      expect(seen).toHaveProperty('disruption', { text: expect.stringMatching(text), graceMs, ...own });
    });

    test('has no exit code of an earlier run', () => {
      expect(observationOf(wanted, null)).toMatchObject({ exitCode: null, startedAtMs: 0 });
    });

    test('is none for a run that ends by itself, and for what Berth ends', () => {
      const ended = podWith({ state: terminated(3) });
      expect(observationOf(wanted, ended)).toMatchObject({ running: false, exitCode: 3 });
      const stopped = { ...wanted, spec: { ...wanted.spec, replicas: 0 } } as StatefulSet;
      for (const seen of [
        observationOf(wanted, ended),
        observationOf(wanted, podWith(running)),
        observationOf(stopped, null),
        observationOf(stopped, deleted(podWith(running))),
        observationOf({ ...wanted, metadata: { ...wanted.metadata, deletionTimestamp: endsAt } }, null),
      ])
        expect(seen).not.toHaveProperty('disruption');
    });
  });

  test('a restarted container is no run', () => {
    expect(isRunning(podWith(running))).toBe(true);
    expect(isRunning(podWith({ ...running, restartCount: 1 }))).toBe(false);
    expect(isRunning(null)).toBe(false);
  });
});

describe('a start that fails', () => {
  const waiting = (reason: string, message: string): Pod => podWith({ state: { waiting: { reason, message } } });

  test.for([
    {
      pod: waiting(
        'ErrImagePull',
        'failed to pull and unpack image: failed to resolve reference "registry.example/lab:1": registry.example/lab:1: not found',
      ),
      is: { kind: 'not_found', reason: 'imageMissing', retry: true },
    },
    {
      pod: waiting(
        'ErrImagePull',
        'failed to authorize: failed to fetch anonymous token: unexpected status: 401 Unauthorized',
      ),
      is: { kind: 'denied', reason: 'imageDenied', retry: false },
    },
    {
      pod: waiting(
        'ErrImagePull',
        'pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed',
      ),
      is: { kind: 'denied', reason: 'imageDenied' },
    },
    {
      pod: waiting('ErrImagePull', 'dial tcp 192.0.2.1:443: connect: connection refused'),
      is: { kind: 'unreachable', reason: 'registryAway', retry: true },
    },
    {
      pod: waiting('ErrImageNeverPull', 'Container image "berth.local/x:1" is not present with pull policy of Never'),
      is: { kind: 'not_found', reason: 'imageMissing' },
    },
    {
      pod: waiting('InvalidImageName', 'couldn\'t parse image name "A b"'),
      is: { kind: 'rejected', reason: 'imageMissing', retry: false },
    },
    {
      pod: waiting('ErrImagePull', 'no match for platform in manifest: not found'),
      is: { kind: 'rejected', reason: 'imageUnfit', retry: false },
    },
    {
      pod: waiting('ErrImagePull', 'write /var/lib/containerd/x: no space left on device'),
      is: { kind: 'no_capacity', reason: 'diskFull' },
    },
    {
      pod: waiting('RunContainerError', 'exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown'),
      is: { kind: 'rejected', reason: 'imageUnfit', retry: false },
    },
    {
      pod: podWith({
        state: { terminated: { exitCode: 128, reason: 'StartError', message: 'exec /bin/sh: exec format error' } },
      }),
      is: { kind: 'rejected', reason: 'imageUnfit' },
    },
  ])('$pod.status.containerStatuses.0.state', ({ pod, is }) => {
    expect(startFailureOf(pod)).toMatchObject(is);
  });

  const unschedulable = (message: string): Pod => ({
    status: { conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }] },
  });

  test('without free capacity has the text of the scheduler', () => {
    const text = '0/1 nodes are available: 1 Insufficient cpu.';
    expect(startFailureOf(unschedulable(text))).toMatchObject({
      kind: 'no_capacity',
      retry: true,
      reason: 'clusterFull',
      message: expect.stringContaining(text),
    });
    const elsewhere = `0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match pod affinity rules.`;
    expect(startFailureOf(unschedulable(elsewhere))).toMatchObject({
      reason: 'clusterFull',
      message: expect.stringMatching(/share are mounted on one node .* stop an instance .*ReadWriteMany.*pod affinity/),
    });
    for (const why of ['1 Insufficient nvidia.com/gpu.', '1 cannot allocate all claims.'])
      expect(startFailureOf(unschedulable(`0/1 nodes are available: ${why}`))).toMatchObject({
        kind: 'no_capacity',
        reason: 'clusterFull',
        message: expect.stringContaining('no node of the cluster has the GPUs free'),
      });
  });

  test('a claim that may still bind is waited for; one that is gone is a bad mount', () => {
    expect(startFailureOf(unschedulable('pod has unbound immediate PersistentVolumeClaims'))).toBeNull();
    expect(startFailureOf(unschedulable('persistentvolumeclaim "data" not found'))).toMatchObject({
      kind: 'rejected',
      reason: 'badMount',
    });
  });

  test.for(['ContainerCreating', 'PodInitializing', 'CrashLoopBackOff'])('%s is none', (reason) => {
    expect(startFailureOf(waiting(reason, ''))).toBeNull();
  });

  test('a back-off without its error is waited for', () => {
    expect(imageFault('x', 'ImagePullBackOff', 'Back-off pulling image "x"')).toBeNull();
    expect(imageFault('x', 'ImagePullBackOff', 'Back-off pulling image "x": ErrImagePull: x: not found')).toMatchObject(
      { reason: 'imageMissing' },
    );
  });

  test('a node that refuses the Pod is no_capacity', () => {
    expect(
      refusalOfNode({
        status: { phase: 'Failed', reason: 'OutOfcpu', message: 'Node did not have enough resource: cpu' },
      }),
    ).toMatchObject({
      kind: 'no_capacity',
      message: expect.stringContaining('Node did not have enough resource: cpu'),
    });
    expect(refusalOfNode(podWith({ state: terminated(1) }, { phase: 'Failed' }))).toBeNull();
  });
});

describe('the network container of a Pod', () => {
  const image = 'registry.example/berth:1';
  type State = NonNullable<ContainerStatus['state']>;
  /** Each container with its state; undefined before the node has seen it. */
  const stateOf = (...states: (State | undefined)[]) =>
    networkContainerOf(
      {
        spec: {
          containers: [],
          ephemeralContainers: [
            { name: 'debugger-1', image: 'busybox' },
            ...states.map((_, index) => ({ name: `berth-network-${index + 1}`, image })),
          ],
        },
        status: {
          ephemeralContainerStatuses: states.flatMap((state, index) =>
            state === undefined
              ? []
              : [{ name: `berth-network-${index + 1}`, image, imageID: '', ready: false, restartCount: 0, state }],
          ),
        },
      },
      image,
    );
  const runs = { running: { startedAt: at } };
  const waits = (reason: string, message?: string): State => ({
    waiting: message === undefined ? { reason } : { reason, message },
  });

  test.for([
    { what: 'is added to a Pod without one', states: [], is: { kind: 'absent', nextName: 'berth-network-1' } },
    { what: 'is awaited before the node has seen it', states: [undefined], is: { kind: 'starting', failure: null } },
    {
      what: 'is awaited while it starts',
      states: [waits('ContainerCreating')],
      is: { kind: 'starting', failure: null },
    },
    {
      what: 'says why its image is missing',
      states: [waits('ErrImagePull', 'no such image')],
      is: { kind: 'starting', failure: 'no such image' },
    },
    { what: 'is used while it runs', states: [runs], is: { kind: 'running', name: 'berth-network-1' } },
    {
      what: 'is followed by another after its end',
      states: [terminated(137, 'OOMKilled')],
      is: { kind: 'absent', nextName: 'berth-network-2' },
    },
    {
      what: 'is the last one',
      states: [terminated(137), runs],
      is: { kind: 'running', name: 'berth-network-2' },
    },
    {
      what: 'is not added without end',
      states: Array.from({ length: 20 }, () => terminated(137)),
      is: { kind: 'exhausted' },
    },
  ])('$what', ({ states, is }) => {
    expect(stateOf(...states)).toEqual(is);
  });

  test('is replaced where it does not start and the region has another image', () => {
    const pod: Pod = {
      spec: { containers: [], ephemeralContainers: [{ name: 'berth-network-1', image: 'registry.example/wrong:1' }] },
    };
    expect(networkContainerOf(pod, image)).toEqual({ kind: 'absent', nextName: 'berth-network-2' });
  });
});

describe('quantities', () => {
  test.for<[string, number]>([
    ['250m', 0.25],
    ['2', 2],
    ['1.5', 1.5],
    ['64Mi', 67_108_864],
    ['1e3', 1_000],
    ['12345678n', 0.012345678],
    ['3Ki', 3_072],
    ['2G', 2e9],
  ])('%s is %d', ([text, number]) => expect(quantityOf(text)).toBeCloseTo(number, 9));

  test('thousandths are whole; other text is no number', () => {
    expect(milliOf('1234567n')).toBe(1);
    for (const text of ['', 'x', '1Q', 'm']) expect(quantityOf(text)).toBeNaN();
  });
});

describe('counters read inside', () => {
  test('understand versions 2 and 1 of control groups', () => {
    const two = 'cpu_us 1500\nmemory 1000\ncache 200\npids 3\npids_max max\nnetwork 10 20\nnetwork 1 2\n';
    expect(parseReading(two, 5)).toEqual({
      atMs: 5,
      cpuNs: 1_500_000,
      memoryBytes: 800,
      receivedBytes: 11,
      sentBytes: 22,
      readBytes: null,
      writtenBytes: null,
      processes: 3,
      processLimit: null,
    });
    expect(parseReading('cpu_ns 7\nmemory 10\ncache 20\npids_max 64\n', 5)).toMatchObject({
      cpuNs: 7,
      memoryBytes: 0,
      receivedBytes: null,
      processLimit: 64,
    });
  });

  test('without CPU or memory there are none', () => {
    expect(parseReading('memory 10\n', 5)).toBeNull();
    expect(parseReading('sh: not found\n', 5)).toBeNull();
  });
});
