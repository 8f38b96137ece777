/** A region of a bench's Berth that is a real Kubernetes cluster. */
import type { KubernetesEngineSettings } from '../../src/domain/regions/kubernetes-settings.ts';
import { storageClass } from '../../test/kubernetes/cluster/config.ts';
import type { Cluster } from '../../test/kubernetes/cluster/cluster.ts';
import { until } from '../launch.ts';
import type { Berth } from './berth.ts';

export const NAMESPACE = 'berth';
export const IMAGE = 'bench.invalid/notebook:1';
const NODE_PORTS = { first: 30_000, last: 32_767 };
const ANSWER_DEADLINE_MS = 60_000;
const PRICE = 0.001;

interface ClusterRegion {
  cluster: Cluster;
  engine?: Partial<KubernetesEngineSettings>;
  /** Storage class of the claims; default: that of the test cluster's driver. */
  storage?: string;
  size: { cpuCores: number; memoryGB: number };
}

/** Adds the namespace, the region, a type and the image; returns what a launch names. */
export async function addClusterRegion(
  client: ReturnType<Berth['client']>,
  { cluster, engine, storage = storageClass, size }: ClusterRegion,
): Promise<Berth['example']> {
  await cluster.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } });
  const { apiUrl, ca, token, nodeAddress } = cluster;
  const pool = { storageClass: storage, sizeLimit: 'hard' as const, filesImage: IMAGE };
  const { region } = await client.createRegion({
    name: 'cluster',
    value: 'cluster',
    location: 'this machine',
    sshAddress: nodeAddress,
    credentials: token,
    settings: {
      kubernetes: {
        login: 'token',
        apiUrl,
        ca,
        namespace: NAMESPACE,
        reach: 'podAddress',
        networkPolicies: true,
        peers: [{ cidr: `${nodeAddress.replace(/\d+$/, '')}0/24` }],
        ...engine,
      },
      pools: [{ name: 'default', sizeGB: 100_000, claims: pool }],
      nodePorts: NODE_PORTS,
    },
  });
  const { type } = await client.createType({
    regionId: region.regionId,
    name: 'bench',
    ...size,
    rootDiskGB: 10,
    dataDiskGB: 1,
    prices: { tidePerHour: PRICE, perHour: PRICE, perDay: PRICE, perWeek: PRICE, perMonth: PRICE },
  });
  const { image } = await client.createCatalogImage({ name: 'bench', ref: IMAGE });
  const answers = async (): Promise<boolean> => {
    const { regions } = await client.listRegions({});
    return regions.some(({ regionId, engine: { answers: one } }) => regionId === region.regionId && one);
  };
  await until(answers, ANSWER_DEADLINE_MS, 100, 'the cluster does not answer');
  return { region: region.regionId, imageId: image.imageId, instanceTypeId: type.instanceTypeId };
}
