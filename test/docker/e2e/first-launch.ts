/** What a newcomer launches: the first image, once it is there, on the first type of the first region. */
import type { InstanceObject } from '../../../src/contract/instance.ts';
import { until, type Client } from './server-process.ts';

/** A machine that never had it makes it first. */
export const IMAGE_DEADLINE_MS = 600_000;

interface Wish {
  name: string;
  initScript?: string;
  nodePorts?: number[];
}

export async function firstWish(client: Client, { name, initScript = '', nodePorts = [] }: Wish) {
  const { images } = await until(
    () => client.listImages({ pager: { currentPage: 1, pageSize: 1 } }),
    (listed) => listed.images[0]?.state === 'Ready',
    IMAGE_DEADLINE_MS,
  );
  const place = (await client.catalog()).instanceInfos[0]?.regionInfos[0];
  return {
    name,
    imageId: images[0]?.imageId ?? '',
    instanceTypeId: place?.instanceTypeInfos[0]?.instanceTypeId ?? '',
    region: place?.regionId ?? '',
    billing: { chargeMode: 'perHour', duration: 1 } as const,
    remoteStorages: [],
    instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript },
    nodePorts,
  };
}

/** Answers once it runs. */
export async function launchFirst(client: Client, wish: Wish): Promise<InstanceObject & { instanceId: string }> {
  const { instanceId } = await client.launch(await firstWish(client, wish));
  return { ...(await running(client, instanceId)), instanceId };
}

/** The instance, once it runs. */
export async function running(client: Client, instanceId: string): Promise<InstanceObject> {
  const { instance } = await until(
    () => client.getInstance({ instanceId }),
    (one) => one.instance.instanceRuntimeInfo.status === 'Running',
  );
  return instance;
}

/** Where the port is reached from without the gateway. */
export function nodePortOf({ instanceSpecInfo }: InstanceObject, port: number): { address: string; nodePort: number } {
  const found = instanceSpecInfo.nodePorts.find((one) => one.port === port);
  if (found === undefined) throw new Error(`port ${port} has no node port`);
  return found;
}
