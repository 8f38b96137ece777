/**
 * Docker daemon of an instance: a sidecar with rights to mount and to change networks, which a
 * region must allow. Starts before the instance and ends after it; the daemon waits for the run,
 * which pays for its containers. Pure.
 */
import type { KubernetesEngineSettings } from '../../../domain/regions/kubernetes-settings.ts';
import type { EngineSpec } from '../../contract.ts';
import type { Container, Volume, VolumeMount } from './pod-parts.ts';

export const DOCKER_CONTAINER = 'docker';
/** Same path in the instance and in the sidecar. */
const SOCKET_FOLDER = '/run/berth-docker';
const DATA_FOLDER = '/srv/docker';

export interface DockerSidecar {
  container: Container;
  volumes: Volume[];
  /** Mounts of the instance. */
  mounts: VolumeMount[];
}

export interface RunMark {
  volume: string;
  folder: string;
  beganMark: string;
}

const entryOf = ({ beganMark }: RunMark): string => `
trap 'exit 0' TERM
until [ -e ${beganMark} ]; do sleep 1 & wait $!; done
exec /usr/local/sbin/docker-inside nested`;

export function dockerSidecar(
  { docker, mounts, cpuMilli, memoryMiB }: EngineSpec,
  { privilegedDocker }: KubernetesEngineSettings,
  run: RunMark,
): DockerSidecar | null {
  if (docker === undefined || privilegedDocker === undefined) return null;
  const claims = [...new Set(mounts.map(({ source }) => source))];
  return {
    container: {
      name: DOCKER_CONTAINER,
      image: privilegedDocker.image,
      imagePullPolicy: 'IfNotPresent',
      restartPolicy: 'Always',
      command: ['/bin/sh', '-c', entryOf(run)],
      env: Object.entries(docker.environment ?? {}).map(([name, value]) => ({ name, value })),
      resources: {
        limits: { cpu: `${cpuMilli}m`, memory: `${memoryMiB}Mi` },
        requests: { cpu: '10m', memory: '64Mi' },
      },
      securityContext: { privileged: true, readOnlyRootFilesystem: true, runAsUser: 0 },
      volumeMounts: [
        { name: 'docker-data', mountPath: DATA_FOLDER, subPath: 'nested' },
        { name: 'docker-socket', mountPath: SOCKET_FOLDER },
        { name: 'docker-run', mountPath: '/run' },
        { name: 'docker-tmp', mountPath: '/tmp' },
        { name: run.volume, mountPath: run.folder, readOnly: true },
        // The instance's disks at the same paths, so `docker run -v` works as expected.
        ...mounts.map(({ source, target, readOnly }) => ({
          name: `claim-${claims.indexOf(source)}`,
          mountPath: target,
          ...(readOnly ? { readOnly } : {}),
        })),
      ],
    },
    volumes: [
      { name: 'docker-data', persistentVolumeClaim: { claimName: docker.storage } },
      { name: 'docker-socket', emptyDir: {} },
      { name: 'docker-run', emptyDir: { medium: 'Memory', sizeLimit: '64Mi' } },
      { name: 'docker-tmp', emptyDir: { medium: 'Memory', sizeLimit: '64Mi' } },
    ],
    // A socket accepts connections on a read-only mount, too.
    mounts: [{ name: 'docker-socket', mountPath: SOCKET_FOLDER, readOnly: true }],
  };
}
