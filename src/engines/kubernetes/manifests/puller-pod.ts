/**
 * Short-lived Pod that makes a node download an image, and tells whether a shell starts in it. The
 * shell is a program of whoever made the image, so the Pod has no rights and no network. Pure.
 */
import { createHash, randomBytes } from 'node:crypto';
import type { RegistryCredentials } from '../../contract.ts';
import type { KubernetesEngineSettings } from '../../../domain/regions/kubernetes-settings.ts';
import type { NetworkPolicy, Pod, Secret } from '../../../kubernetes/api-objects.ts';
import { labelsFor } from './object-names.ts';
import { LOCAL_IMAGES } from './pod-template.ts';
import { pullSecretData } from './pull-secret.ts';

/** Ends a Pod that Berth has lost. */
const DEADLINE_SECONDS = 3_600;

export const newPullerName = (ref: string): string =>
  `berth-pull-${createHash('sha256').update(ref).digest('hex').slice(0, 12)}-${randomBytes(4).toString('hex')}`;

export interface PullerOptions {
  name: string;
  installation: string;
  settings: KubernetesEngineSettings;
  ref: string;
  /** A Secret with the name of the Pod has the login. */
  hasSecret: boolean;
  /** Asks the registry for a present image, too. */
  askRegistry: boolean;
  /** Script of the shell; default: none. */
  script?: string;
}

const identityOf = (installation: string, name: string) => ({
  installation,
  kind: 'pull' as const,
  id: name,
  ownerId: '',
});

export function pullerPod(options: PullerOptions): Pod {
  const { name, installation, settings, ref, hasSecret, askRegistry, script = 'exit 0' } = options;
  const resources = { cpu: '1m', memory: '16Mi' };
  return {
    metadata: { name, labels: labelsFor(identityOf(installation, name)) },
    spec: {
      restartPolicy: 'Never',
      activeDeadlineSeconds: DEADLINE_SECONDS,
      terminationGracePeriodSeconds: 1,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      ...(settings.userNamespaces ? { hostUsers: false } : {}),
      ...(settings.nodeSelector === undefined ? {} : { nodeSelector: { ...settings.nodeSelector } }),
      ...(settings.tolerations === undefined ? {} : { tolerations: settings.tolerations.map((one) => ({ ...one })) }),
      ...(hasSecret ? { imagePullSecrets: [{ name }] } : {}),
      containers: [
        {
          name: 'pull',
          image: ref,
          imagePullPolicy: ref.startsWith(LOCAL_IMAGES) ? 'Never' : askRegistry ? 'Always' : 'IfNotPresent',
          command: ['/bin/sh', '-c', script],
          resources: { limits: resources, requests: { ...resources } },
          securityContext: {
            runAsUser: 0,
            allowPrivilegeEscalation: false,
            capabilities: { drop: ['ALL'] },
            seccompProfile: { type: 'RuntimeDefault' },
          },
        },
      ],
    },
  };
}

/** Closes the network of the Pod, which no policy of an account selects. */
export function pullerPolicy({ name, installation }: Pick<PullerOptions, 'name' | 'installation'>): NetworkPolicy {
  const labels = labelsFor(identityOf(installation, name));
  return {
    metadata: { name, labels },
    spec: { podSelector: { matchLabels: { ...labels } }, policyTypes: ['Ingress', 'Egress'] },
  };
}

export const pullerSecret = (
  { name, installation, ref }: Pick<PullerOptions, 'name' | 'installation' | 'ref'>,
  credentials: RegistryCredentials,
): Secret => ({
  metadata: { name, labels: labelsFor(identityOf(installation, name)) },
  ...pullSecretData(ref, credentials),
});
