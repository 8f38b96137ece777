/** Command lines of the components, with the paths that files have inside the node. */
import type { Layout } from './addresses.ts';
import { containerdSocket, csiDriver, deviceDriver } from './config.ts';

const programs = '/run/programs';
const config = '/run/cluster/config';
const pki = '/run/cluster/pki';
const csiSocket = '/var/lib/kubelet/plugins/disk/csi.sock';
const etcd = 'http://127.0.0.1:2379';
const kubernetes = `${programs}/kubernetes`;

const kubeconfig = (identity: string): string => `--kubeconfig=${config}/${identity}.kubeconfig`;

/** Delegated authentication and authorization of a server, as the same user. */
const asServer = (identity: string): string[] => [
  kubeconfig(identity),
  `--authentication-kubeconfig=${config}/${identity}.kubeconfig`,
  `--authorization-kubeconfig=${config}/${identity}.kubeconfig`,
];

/** By default the controllers create 20 objects a second. */
const quick = ['--kube-api-qps=500', '--kube-api-burst=1000'];

const sidecar = (name: string, ...rest: string[]): string[] => [
  `${programs}/${name}`,
  kubeconfig('admin'),
  '--leader-election=false',
  ...rest,
];

const ATTACH = `
  kubectl() { ${kubernetes} kubectl ${kubeconfig('admin')} --cache-dir=/run/kubectl "$@"; }
  while :; do
    kubectl get volumeattachments --watch -o 'jsonpath={.metadata.name} {.status.attached}{"\\n"}' |
      while read -r name attached; do
        [ "$attached" = true ] ||
          kubectl patch volumeattachment "$name" --subresource=status --type=merge -p '{"status":{"attached":true}}'
      done
    sleep 0.2
  done`;

/** Components by name, in the order in which they start. */
export const components = {
  etcd: () => [
    kubernetes,
    'etcd',
    '--name=node',
    '--data-dir=/var/lib/etcd',
    `--listen-client-urls=${etcd}`,
    `--advertise-client-urls=${etcd}`,
    '--listen-peer-urls=http://127.0.0.1:2380',
    '--initial-advertise-peer-urls=http://127.0.0.1:2380',
    '--initial-cluster=node=http://127.0.0.1:2380',
    // A crash of the machine ends the tests anyway.
    '--unsafe-no-fsync',
    '--log-level=warn',
  ],
  containerd: () => ['containerd', '--config', `${config}/containerd.toml`],
  'kube-apiserver': ({ nodeAddress, services }: Layout) => [
    kubernetes,
    'kube-apiserver',
    `--etcd-servers=${etcd}`,
    `--advertise-address=${nodeAddress}`,
    '--secure-port=6443',
    `--tls-cert-file=${pki}/node.crt`,
    `--tls-private-key-file=${pki}/node.key`,
    `--client-ca-file=${pki}/ca.crt`,
    `--token-auth-file=${pki}/tokens.csv`,
    '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
    `--service-account-key-file=${pki}/accounts.pub`,
    `--service-account-signing-key-file=${pki}/accounts.key`,
    `--service-cluster-ip-range=${services}`,
    '--authorization-mode=Node,RBAC',
    '--enable-admission-plugins=NodeRestriction',
    `--kubelet-client-certificate=${pki}/node.crt`,
    `--kubelet-client-key=${pki}/node.key`,
    `--kubelet-certificate-authority=${pki}/ca.crt`,
    '--kubelet-preferred-address-types=InternalIP',
    // The aggregation layer, for the metrics API.
    `--requestheader-client-ca-file=${pki}/ca.crt`,
    '--requestheader-allowed-names=node',
    '--requestheader-username-headers=X-Remote-User',
    '--requestheader-group-headers=X-Remote-Group',
    '--requestheader-extra-headers-prefix=X-Remote-Extra-',
    `--proxy-client-cert-file=${pki}/node.crt`,
    `--proxy-client-key-file=${pki}/node.key`,
    '--allow-privileged=true',
    '--profiling=false',
  ],
  'kube-controller-manager': () => [
    kubernetes,
    'kube-controller-manager',
    ...asServer('controllers'),
    `--service-account-private-key-file=${pki}/accounts.key`,
    `--root-ca-file=${pki}/ca.crt`,
    `--cluster-signing-cert-file=${pki}/ca.crt`,
    `--cluster-signing-key-file=${pki}/ca.key`,
    '--use-service-account-credentials=true',
    '--leader-elect=false',
    '--bind-address=127.0.0.1',
    ...quick,
    '--node-monitor-period=1s',
    '--node-monitor-grace-period=10s',
  ],
  'kube-scheduler': () => [
    kubernetes,
    'kube-scheduler',
    ...asServer('scheduler'),
    '--leader-elect=false',
    '--bind-address=127.0.0.1',
    ...quick,
  ],
  kubelet: ({ nodeName, nodeAddress }: Layout) => [
    kubernetes,
    'kubelet',
    `--config=${config}/kubelet.json`,
    kubeconfig(`kubelet-of-${nodeName}`),
    `--hostname-override=${nodeName}`,
    `--node-ip=${nodeAddress}`,
  ],
  'kube-proxy': () => [kubernetes, 'kube-proxy', `--config=${config}/kube-proxy.json`],
  'network-policy': () => [`${programs}/network-policy`, kubeconfig('admin')],
  dns: () => [`${programs}/dns`, '-conf', `${config}/Corefile`],
  'metrics-server': () => [
    kubernetes,
    'metrics-server',
    ...asServer('admin'),
    `--kubelet-certificate-authority=${pki}/ca.crt`,
    '--kubelet-preferred-address-types=InternalIP',
    '--secure-port=4443',
    '--cert-dir=/var/lib/metrics-server',
    '--metric-resolution=10s',
    '--kubelet-request-timeout=5s',
  ],
  'csi-driver': ({ name, nodeName }: Layout) => [
    `${programs}/csi-driver`,
    `--driver=${csiDriver}`,
    `--node=${nodeName}`,
    // The host sees the paths of files on loop devices: the name tells whose they are.
    `--folder=/var/lib/csi-driver/${name}`,
    `--socket=${csiSocket}`,
    '--registration=/var/lib/kubelet/plugins_registry/disk.sock',
  ],
  'csi-provisioner': () =>
    sidecar(
      'csi-provisioner',
      `--csi-address=${csiSocket}`,
      '--feature-gates=Topology=false',
      '--default-fstype=xfs',
      '--extra-create-metadata',
    ),
  // Lets each attachment succeed, as for a driver without ControllerPublishVolume. The controllers
  // ask for none while another node has the volume.
  'csi-attacher': () => ['/bin/sh', '-c', ATTACH],
  'csi-resizer': () => sidecar('csi-resizer', `--csi-address=${csiSocket}`),
  // Without the gate it waits for resources of groups first, for 30 s.
  'snapshot-controller': () => sidecar('snapshot-controller', '--feature-gates=CSIVolumeGroupSnapshot=false'),
  'csi-snapshotter': () => sidecar('csi-snapshotter', `--csi-address=${csiSocket}`),
  'dra-driver': () => [
    `${programs}/dra-driver`,
    `--driver=${deviceDriver}`,
    kubeconfig('admin'),
    `--socket=/var/lib/kubelet/plugins/${deviceDriver}/dra.sock`,
    '--registration=/var/lib/kubelet/plugins_registry/dra.sock',
  ],
  kwok: ({ simulatedPods }: Layout) => [
    `${programs}/kwok`,
    kubeconfig('admin'),
    `--config=${programs}/kwok.yaml`,
    '--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake',
    `--cidr=${simulatedPods}`,
    // As often as the kubelet: without leases the nodes, and so their Pods, are soon not ready.
    '--node-lease-duration-seconds=8',
  ],
} satisfies Record<string, (layout: Layout) => string[]>;

export type Component = keyof typeof components;

/** Started when the API server is ready. */
export const controlPlane = ['kube-controller-manager', 'kube-scheduler', 'kubelet', 'kube-proxy'] as const;

/** Components that a cluster can do without. */
export const addons = {
  networkPolicy: ['network-policy'],
  dns: ['dns'],
  metrics: ['metrics-server'],
  devices: ['dra-driver'],
  storage: ['csi-driver', 'csi-provisioner', 'csi-resizer', 'snapshot-controller', 'csi-snapshotter'],
} as const satisfies Record<string, readonly Component[]>;

export type Addon = keyof typeof addons;

/** What each node after the first runs, with the addons of the cluster. */
export const ofFurtherNodes: readonly Component[] = ['kubelet', 'kube-proxy', 'network-policy', 'csi-driver'];

/** Calls `ctr` for the images of the kubelet. */
export const ctr = (...words: string[]): string[] => ['ctr', '--address', containerdSocket, '-n', 'k8s.io', ...words];
