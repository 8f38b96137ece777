/** Manifests of the cluster's own tests. */

export const image = 'berth.test/busybox:1';

export interface PodOptions {
  command: readonly string[];
  /** Claim mounted at `/data`. */
  claim?: string;
  /** Default: any. */
  node?: string;
  labels?: Record<string, string>;
}

export const pod = (name: string, { command, claim, node, labels = { app: name } }: PodOptions): object => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, labels },
  spec: {
    terminationGracePeriodSeconds: 1,
    ...(node && { nodeSelector: { 'kubernetes.io/hostname': node } }),
    containers: [
      { name: 'main', image, command, ...(claim && { volumeMounts: [{ name: 'data', mountPath: '/data' }] }) },
    ],
    ...(claim && { volumes: [{ name: 'data', persistentVolumeClaim: { claimName: claim } }] }),
  },
});

/** Sleeps until it is ended. */
export const sleeps = ['sh', '-c', 'trap exit TERM; sleep 3600 & wait'];

/** Serves its host name on port 8080. */
export const serves = [
  'sh',
  '-c',
  'mkdir /www; hostname >/www/index.html; echo serving; exec httpd -f -p 8080 -h /www',
];

export const nodePortService = (name: string, nodePort: number): object => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name },
  spec: { type: 'NodePort', selector: { app: name }, ports: [{ port: 80, targetPort: 8080, nodePort }] },
});

export const claim = (name: string, storage: string, snapshot?: string): object => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name },
  spec: {
    accessModes: ['ReadWriteOnce'],
    resources: { requests: { storage } },
    ...(snapshot && {
      dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: snapshot },
    }),
  },
});

export const snapshot = (name: string, claimName: string): object => ({
  apiVersion: 'snapshot.storage.k8s.io/v1',
  kind: 'VolumeSnapshot',
  metadata: { name },
  spec: { volumeSnapshotClassName: 'disk', source: { persistentVolumeClaimName: claimName } },
});

/** Only Pods with label `app: from` may connect to Pods with label `app: to`. */
export const onlyFrom = (from: string, to: string): object => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name: `only-${from}` },
  spec: {
    podSelector: { matchLabels: { app: to } },
    policyTypes: ['Ingress'],
    ingress: [{ from: [{ podSelector: { matchLabels: { app: from } } }], ports: [{ port: 8080 }] }],
  },
});
