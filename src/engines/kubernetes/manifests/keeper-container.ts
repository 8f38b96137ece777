/**
 * Container that only waits. It keeps the Pod after the end of the run: the StatefulSet would make
 * another at once, without the last lines of the console. Its shell may be any program of the
 * image, so it has no mounts, devices or capabilities. Pure.
 */
import type { Container } from './pod-parts.ts';

/** PID 1 ignores a signal that it has no handler for, which would delay the end of the Pod. */
export const IDLE = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done";
const USER = 65_534;

export const keeperContainer = (image: Pick<Container, 'image' | 'imagePullPolicy'>): Container => ({
  name: 'keeper',
  ...image,
  command: ['/bin/sh', '-c', IDLE],
  // CUDA images say `all`, which can grant every GPU of the node.
  env: [{ name: 'NVIDIA_VISIBLE_DEVICES', value: 'void' }],
  resources: {
    // The start takes no longer than without limits.
    limits: { cpu: '100m', memory: '16Mi' },
    // The Pod has the size of its type.
    requests: { cpu: '0', memory: '0' },
  },
  securityContext: {
    runAsUser: USER,
    runAsGroup: USER,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
    seccompProfile: { type: 'RuntimeDefault' },
  },
});
