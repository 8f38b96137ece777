/** Drivers of a region that is a Kubernetes cluster, loaded with the first such region. */
import type { PoolDrivers, RegionDrivers } from '../control/kernel/regions.ts';
import type { Log } from '../control/kernel/logger.ts';
import type { KubernetesEngineSettings } from '../domain/regions/kubernetes-settings.ts';
import type { PoolSettings } from '../domain/regions/region-settings.ts';
import type { ClusterCredentials } from '../kubernetes/cluster-connection.ts';

export interface ClusterRegion {
  installation: string;
  settings: KubernetesEngineSettings;
  pools: readonly PoolSettings[];
  rulesOf: (pool: PoolSettings) => Omit<PoolDrivers, 'storage'>;
  secret: string | null;
  gatewayPorts: readonly number[];
  log: Log;
}

export async function kubernetesDrivers({
  installation,
  settings,
  pools,
  rulesOf,
  secret,
  gatewayPorts,
  log,
}: ClusterRegion): Promise<Pick<RegionDrivers, 'engine' | 'pools'>> {
  const { openCluster } = await import('../kubernetes/cluster.ts');
  const { makeKubernetesEngine } = await import('../engines/kubernetes/kubernetes.ts');
  const { makeClaimStorage } = await import('../storage/claims/claims.ts');
  const { makeClaimLists } = await import('../storage/claims/claim-lists.ts');
  const { namespace } = settings;
  const cluster = await openCluster({ credentials: credentialsOf(settings, secret), namespace });
  const engine = makeKubernetesEngine({
    cluster,
    installation,
    settings,
    gatewayPorts,
    checkImage: pools[0]?.claims?.filesImage,
    log,
  });
  const lists = makeClaimLists(cluster, installation);
  return {
    engine,
    pools: pools.map((pool): PoolDrivers => {
      const { claims, sizeGB, name } = pool;
      if (claims === undefined) throw new Error(`the pool ${name} has no "claims"`);
      const dockerInside = settings.privilegedDocker !== undefined;
      return {
        ...rulesOf(pool),
        storage: makeClaimStorage({
          cluster,
          lists,
          installation,
          pool: name,
          sizeGB,
          dockerInside,
          placement: settings,
          ...claims,
        }),
      };
    }),
  };
}

function credentialsOf(
  { login, apiUrl, ca }: Pick<KubernetesEngineSettings, 'login' | 'apiUrl' | 'ca'>,
  secret: string | null,
): ClusterCredentials {
  if (login === 'inCluster') return { kind: 'inCluster' };
  if (secret === null) throw new Error(`"login" is ${login}, and there are no "credentials"; send them`);
  if (login === 'kubeconfig') return { kind: 'kubeconfig', text: secret };
  if (apiUrl === undefined) throw new Error('"login" is token, and there is no "apiUrl"; send it');
  return { kind: 'token', apiUrl, ca, token: secret };
}
