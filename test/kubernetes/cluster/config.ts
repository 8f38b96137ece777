/** Configuration files of the components, in the folder `/run/cluster/config` of the node. */
import { nodeNames, type Layout } from './addresses.ts';

/** Name of the first node. */
export const [nodeName] = nodeNames;
export const containerdSocket = '/run/containerd/containerd.sock';
export const pauseImage = 'berth.test/pause:1';

/** Driver of devices that no hardware is behind. */
export const deviceDriver = 'gpu.berth.test';
/** Driver, storage class and snapshot class; a second class of the driver. */
export const csiDriver = 'disk.csi.berth.test';
export const storageClass = 'disk';
export const fastStorageClass = 'fast-disk';

export function configFiles(layout: Layout): Record<string, string> {
  return {
    'kubelet.json': JSON.stringify(kubelet(layout)),
    'kube-proxy.json': JSON.stringify(kubeProxy(layout)),
    'containerd.toml': containerd,
    'cni/10-bridge.conflist': JSON.stringify(cni(layout)),
    Corefile: corefile(layout),
    'resolv.conf': '',
  };
}

const kubelet = ({ groups, nodeAddress, serverAddress }: Layout): object => ({
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  kind: 'KubeletConfiguration',
  address: nodeAddress,
  authentication: {
    anonymous: { enabled: false },
    webhook: { enabled: true },
    x509: { clientCAFile: '/run/cluster/pki/ca.crt' },
  },
  authorization: { mode: 'Webhook' },
  tlsCertFile: '/run/cluster/pki/node.crt',
  tlsPrivateKeyFile: '/run/cluster/pki/node.key',
  containerRuntimeEndpoint: `unix://${containerdSocket}`,
  cgroupDriver: 'cgroupfs',
  cgroupRoot: `/${groups}`,
  failCgroupV1: false,
  failSwapOn: false,
  // Lower scores need CAP_SYS_RESOURCE.
  oomScoreAdj: 0,
  maxOpenFiles: 20_000,
  resolvConf: '/run/cluster/config/resolv.conf',
  clusterDomain: 'cluster.local',
  clusterDNS: [serverAddress],
  evictionHard: {
    'memory.available': '100Mi',
    'nodefs.available': '1%',
    'nodefs.inodesFree': '1%',
    'imagefs.available': '1%',
  },
  // Imported images can't be pulled again.
  imageGCHighThresholdPercent: 100,
  imageGCLowThresholdPercent: 99,
  serializeImagePulls: false,
  // With the grace period of the controllers: a lost node is noticed within 10 s.
  nodeLeaseDurationSeconds: 8,
  nodeStatusUpdateFrequency: '2s',
  // A volume that has grown is noticed with the next sync of its Pod.
  syncFrequency: '3s',
  volumeStatsAggPeriod: '10s',
});

const kubeProxy = ({ nodeName, pods }: Layout): object => ({
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  mode: 'iptables',
  clientConnection: { kubeconfig: '/run/cluster/config/proxy.kubeconfig' },
  clusterCIDR: pods,
  hostnameOverride: nodeName,
  bindAddress: '0.0.0.0',
  healthzBindAddress: '127.0.0.1:10256',
  metricsBindAddress: '127.0.0.1:10249',
  // The limits of the connection table are the host's.
  conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  iptables: { minSyncPeriod: '100ms', syncPeriod: '30s' },
});

const containerd = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = "${containerdSocket}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${pauseImage}"
  # Lower scores need CAP_SYS_RESOURCE.
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/run/cni"
    conf_dir = "/run/cluster/config/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
`;

const cni = ({ podsOfNode }: Layout): object => ({
  cniVersion: '0.4.0',
  name: 'berth',
  plugins: [
    {
      type: 'bridge',
      bridge: 'cni0',
      isGateway: true,
      hairpinMode: true,
      ipam: {
        type: 'host-local',
        ranges: [[{ subnet: podsOfNode }]],
        routes: [{ dst: '0.0.0.0/0' }],
        dataDir: '/run/cni-addresses',
      },
    },
    { type: 'portmap', capabilities: { portMappings: true } },
  ],
});

const corefile = ({ nodeAddress }: Layout): string => `.:53 {
  bind ${nodeAddress}
  errors
  kubernetes cluster.local in-addr.arpa {
    kubeconfig /run/cluster/config/admin.kubeconfig
  }
  cache 5
}
`;

/** The driver and its classes. */
const classOf = (metadata: object): object => ({
  apiVersion: 'storage.k8s.io/v1',
  kind: 'StorageClass',
  metadata,
  provisioner: csiDriver,
  reclaimPolicy: 'Delete',
  volumeBindingMode: 'WaitForFirstConsumer',
  allowVolumeExpansion: true,
});

/** `attaches`: a volume is attached to one node at a time before it is mounted. */
export const storageManifests = ({ attaches }: { attaches: boolean }): readonly object[] => [
  {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'CSIDriver',
    metadata: { name: csiDriver },
    spec: { attachRequired: attaches, podInfoOnMount: false, fsGroupPolicy: 'File' },
  },
  classOf({ name: storageClass, annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } }),
  classOf({ name: fastStorageClass }),
];

/** Needs the resource definitions of snapshots. */
export const snapshotClass = {
  apiVersion: 'snapshot.storage.k8s.io/v1',
  kind: 'VolumeSnapshotClass',
  metadata: { name: storageClass },
  driver: csiDriver,
  deletionPolicy: 'Delete',
};

export const metricsManifests = ({ nodeAddress }: Layout): readonly object[] => {
  const at = { name: 'metrics-server', namespace: 'kube-system' };
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: at,
      spec: { ports: [{ name: 'https', port: 443, targetPort: 4443 }] },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { ...at, labels: { 'kubernetes.io/service-name': at.name } },
      addressType: 'IPv4',
      ports: [{ name: 'https', port: 4443 }],
      endpoints: [{ addresses: [nodeAddress] }],
    },
    {
      apiVersion: 'apiregistration.k8s.io/v1',
      kind: 'APIService',
      metadata: { name: 'v1beta1.metrics.k8s.io' },
      spec: {
        group: 'metrics.k8s.io',
        version: 'v1beta1',
        service: at,
        insecureSkipTLSVerify: true,
        groupPriorityMinimum: 100,
        versionPriority: 100,
      },
    },
  ];
};
