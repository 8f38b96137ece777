/**
 * Pod of an instance, and with it every right of an instance. Pure.
 *
 * A Pod is one run, and Berth decides about another. The container of the instance never restarts,
 * except in clusters before Kubernetes 1.35: there the entry point starts the instance once for
 * each Pod, and then only waits.
 */
import { createHash } from 'node:crypto';
import type { EngineSpec } from '../../contract.ts';
import type { KubernetesEngineSettings } from '../../../domain/regions/kubernetes-settings.ts';
import type { NodePlacement } from '../../../domain/regions/node-placement.ts';
import { gpuRequestOf, type GpuRequest } from '../gpu-resources.ts';
import { ONE_NODE_LABEL } from '../../../kubernetes/one-node.ts';
import type { Container, PodSpec, PodTemplate, Volume, VolumeMount } from './pod-parts.ts';
import { claimTemplateName, POD_CLAIM } from './device-claim.ts';
import { dockerSidecar } from './docker-sidecar.ts';
import { filesDigest } from './control-secret.ts';
import { podProtection } from './node-protection.ts';
import { IDLE, keeperContainer } from './keeper-container.ts';
import { noticeScript } from './preemption-notice.ts';
import { annotations, labelsFor, MAIN_CONTAINER, objectName, pullSecretName } from './object-names.ts';
import { labels } from '../../labels.ts';

export interface PodContext {
  installation: string;
  settings: KubernetesEngineSettings;
  /** A Secret of the instance has the login of the image's registry. */
  hasPullSecret: boolean;
  can: ClusterFeatures;
}

/** Fields of a Pod for recent servers and nodes. */
export interface ClusterFeatures {
  /** The restart policy of a container. */
  restartPolicies: boolean;
  /** Requests and limits of ephemeral storage. */
  storageLimits: boolean;
}

export const CONTROL_FOLDER = '/etc/berth';
export const LOCAL_IMAGES = 'berth.local/';
/** Outlives the container within its Pod. */
const RUN_FOLDER = '/run/berth-pod';
const RUN_VOLUME = 'run';
const BEGAN_MARK = `${RUN_FOLDER}/began`;
/** Present once the run of the Pod has ended. */
export const ENDED_MARK = `${RUN_FOLDER}/ended`;
/** Present once Berth has asked a spot instance to stop. */
export const HALT_MARK = `${RUN_FOLDER}/halt`;
/**
 * Holds the Pods of spot instances back until Berth starts them: after a preemption the StatefulSet
 * makes another at once.
 */
export const START_GATE = 'berth.start';
const DEFAULT_GRACE_SECONDS = 30;
const CONTROL_FILE_MODE = 0o644;

const ENTRY = `
if [ -e ${BEGAN_MARK} ]; then
  : >${ENDED_MARK}
  ${IDLE}
fi
: >${BEGAN_MARK}
exec /bin/sh ${CONTROL_FOLDER}/start`;

export function podTemplate(spec: EngineSpec, context: PodContext): PodTemplate {
  const { installation } = context;
  const identity = { installation, kind: 'instance' as const, id: spec.id, ownerId: spec.ownerId };
  const podSpec = podSpecOf(spec, context);
  return {
    metadata: {
      labels: { ...labelsFor(identity), ...(isOnOneNode(spec) ? { [ONE_NODE_LABEL]: spec.ownerId } : {}) },
      annotations: {
        [annotations.files]: filesDigest(spec.files),
        [annotations.template]: digestOf(podSpec),
        ...podProtection(spec, context.settings),
      },
    },
    spec: podSpec,
  };
}

type Affinity = NonNullable<PodSpec['affinity']>;

const digestOf = (podSpec: PodSpec): string =>
  createHash('sha256').update(JSON.stringify(podSpec)).digest('hex').slice(0, 32);

function podSpecOf(spec: EngineSpec, { installation, settings, hasPullSecret, can }: PodContext): PodSpec {
  const gpus = gpuRequestOf(spec, settings);
  const docker = dockerSidecar(spec, settings, { volume: RUN_VOLUME, folder: RUN_FOLDER, beganMark: BEGAN_MARK });
  const main = mainContainer(spec, settings, { gpus, dockerMounts: docker?.mounts ?? [], can });
  return {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: graceSecondsOf(spec, settings),
    ...(spec.spot === true ? { schedulingGates: [{ name: START_GATE }] } : {}),
    ...(settings.userNamespaces ? { hostUsers: false } : {}),
    ...(spec.runtime === undefined ? {} : { runtimeClassName: spec.runtime }),
    ...priorityOf(spec, settings),
    ...placementOf(
      [settings, gpus?.nodes ?? {}, spec.placement ?? {}],
      isOnOneNode(spec) ? sameNode(installation, spec) : {},
    ),
    ...lowPortsOf(settings),
    ...(spec.dns === undefined ? {} : { dnsPolicy: 'None', dnsConfig: { nameservers: [...spec.dns] } }),
    ...(hasPullSecret ? { imagePullSecrets: [{ name: pullSecretName(spec.id) }] } : {}),
    ...(gpus?.kind === 'claim'
      ? { resourceClaims: [{ name: POD_CLAIM, resourceClaimTemplateName: claimTemplateName(spec, gpus) }] }
      : {}),
    ...(docker === null ? {} : { initContainers: [docker.container] }),
    ...(can.restartPolicies ? keptContainers(main, docker !== null) : { containers: [main] }),
    volumes: [...volumesOf(spec), ...(docker?.volumes ?? [])],
  };
}

/** Gives the Pod the size of the instance, for QoS class and quotas. */
function keptContainers(main: Container, hasDocker: boolean): Pick<PodSpec, 'containers' | 'resources'> {
  const { image, imagePullPolicy, resources } = main;
  const sizeOf = (all: Record<string, string> = {}) => ({ cpu: all['cpu'] ?? '', memory: all['memory'] ?? '' });
  return {
    containers: [{ ...main, restartPolicy: 'Never' }, keeperContainer({ image, imagePullPolicy })],
    ...(hasDocker ? {} : { resources: { limits: sizeOf(resources?.limits), requests: sizeOf(resources?.requests) } }),
  };
}

const graceSecondsOf = ({ spot }: EngineSpec, { preemptionGraceSeconds }: KubernetesEngineSettings): number =>
  spot === true ? (preemptionGraceSeconds ?? DEFAULT_GRACE_SECONDS) : DEFAULT_GRACE_SECONDS;

function noticeHook(spec: EngineSpec, settings: KubernetesEngineSettings): Pick<Container, 'lifecycle'> {
  if (spec.spot !== true) return {};
  const marks = { haltMark: HALT_MARK, endedMark: ENDED_MARK };
  const script = noticeScript(graceSecondsOf(spec, settings), marks);
  return { lifecycle: { preStop: { exec: { command: ['/bin/sh', '-c', script] } } } };
}

function mainContainer(
  spec: EngineSpec,
  settings: KubernetesEngineSettings,
  { gpus, dockerMounts, can }: { gpus: GpuRequest | null; dockerMounts: readonly VolumeMount[]; can: ClusterFeatures },
): Container {
  const { cpuOvercommit = 1 } = settings;
  const limits: Record<string, string> = { cpu: `${spec.cpuMilli}m`, memory: `${spec.memoryMiB}Mi` };
  if (gpus?.kind === 'resource') limits[gpus.resource] = String(spec.gpus);
  // The node ends a Pod that writes more: root disk, console and folders of the Pod together.
  if (can.storageLimits && spec.rootDiskGB !== undefined) limits['ephemeral-storage'] = `${spec.rootDiskGB}Gi`;
  return {
    name: MAIN_CONTAINER,
    image: spec.imageRef,
    imagePullPolicy: spec.imageRef.startsWith(LOCAL_IMAGES) ? 'Never' : 'IfNotPresent',
    command: ['/bin/sh', '-c', ENTRY],
    ...noticeHook(spec, settings),
    workingDir: '/root',
    env: [
      { name: 'HOME', value: '/root' },
      // CUDA images say `all`, which can grant every GPU of the node. A device plugin says which.
      ...(gpus?.kind === 'resource' ? [] : [{ name: 'NVIDIA_VISIBLE_DEVICES', value: 'void' }]),
    ],
    resources: {
      limits,
      requests: { ...limits, cpu: `${Math.max(1, Math.floor(spec.cpuMilli / cpuOvercommit))}m` },
      ...(gpus?.kind === 'claim' ? { claims: [{ name: POD_CLAIM }] } : {}),
    },
    securityContext: {
      runAsUser: 0,
      privileged: false,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['NET_RAW', 'MKNOD'] },
      seccompProfile: { type: 'RuntimeDefault' },
    },
    volumeMounts: [
      { name: 'control', mountPath: CONTROL_FOLDER, readOnly: true },
      { name: RUN_VOLUME, mountPath: RUN_FOLDER },
      { name: 'shm', mountPath: '/dev/shm' },
      ...dockerMounts,
      ...spec.mounts.map(({ source, target, readOnly }) => ({
        name: volumeOf(spec, source),
        mountPath: target,
        ...(readOnly ? { readOnly } : {}),
      })),
    ],
  };
}

const sourcesOf = (spec: EngineSpec): string[] => [...new Set(spec.mounts.map(({ source }) => source))];
const volumeOf = (spec: EngineSpec, source: string): string => `claim-${sourcesOf(spec).indexOf(source)}`;

function volumesOf(spec: EngineSpec): Volume[] {
  return [
    {
      name: 'control',
      projected: {
        defaultMode: CONTROL_FILE_MODE,
        // All files of the Secret, and then those with another mode: a later source wins.
        sources: [
          { secret: { name: objectName(spec.id) } },
          {
            secret: {
              name: objectName(spec.id),
              optional: true,
              items: spec.files
                .filter(({ mode }) => mode !== CONTROL_FILE_MODE)
                .map(({ name, mode }) => ({ key: name, path: name, mode })),
            },
          },
        ],
      },
    },
    { name: RUN_VOLUME, emptyDir: {} },
    // PyTorch's data loaders share tensors in /dev/shm; used pages count as instance memory.
    { name: 'shm', emptyDir: { medium: 'Memory', sizeLimit: `${Math.max(64, Math.floor(spec.memoryMiB / 2))}Mi` } },
    ...sourcesOf(spec).map((claimName) => ({
      name: volumeOf(spec, claimName),
      persistentVolumeClaim: { claimName },
    })),
  ];
}

function priorityOf(
  { spot, placement }: EngineSpec,
  { priorityClass, spotPriorityClass }: KubernetesEngineSettings,
): Pick<PodSpec, 'priorityClassName'> {
  const name = placement?.priorityClass ?? (spot === true ? spotPriorityClass : priorityClass);
  return name === undefined ? {} : { priorityClassName: name };
}

/** An unprivileged process listens on port 22 for Berth (`network-container.ts`). */
const lowPortsOf = ({ networkImage }: KubernetesEngineSettings): Pick<PodSpec, 'securityContext'> =>
  networkImage === undefined
    ? {}
    : { securityContext: { sysctls: [{ name: 'net.ipv4.ip_unprivileged_port_start', value: '0' }] } };

/** All rules must hold; of two values of a label the last one counts. */
function placementOf(
  rules: readonly NodePlacement[],
  podAffinity: Affinity = {},
): Pick<PodSpec, 'nodeSelector' | 'tolerations' | 'affinity'> {
  const nodeSelector = Object.assign({}, ...rules.map((one) => one.nodeSelector));
  const tolerations = rules.flatMap((one) => one.tolerations ?? []);
  const matchExpressions = rules.flatMap((one) => one.nodeAffinity ?? []);
  const required = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions }] } };
  const affinity = { ...(matchExpressions.length === 0 ? {} : { nodeAffinity: required }), ...podAffinity };
  return {
    ...(Object.keys(nodeSelector).length === 0 ? {} : { nodeSelector }),
    ...(tolerations.length === 0 ? {} : { tolerations }),
    ...(Object.keys(affinity).length === 0 ? {} : { affinity }),
  };
}

const isOnOneNode = ({ mounts }: EngineSpec): boolean => mounts.some(({ oneNode }) => oneNode === true);

/**
 * Requires the node of the account's Pods that mount such disks; any node for the first Pod. All
 * mount the shared folder, so one term for all disks is enough.
 */
const sameNode = (installation: string, { ownerId }: EngineSpec): Affinity => ({
  podAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: [
      {
        labelSelector: { matchLabels: { [labels.installation]: installation, [ONE_NODE_LABEL]: ownerId } },
        topologyKey: 'kubernetes.io/hostname',
      },
    ],
  },
});
