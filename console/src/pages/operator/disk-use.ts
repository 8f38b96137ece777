/** What instances and volumes of all accounts wrote to disks, the most first. */
import { queryOptions } from '@tanstack/react-query';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';
import { api } from '../../app/api.ts';

type OwnedInstance = AnswerOf<'listAllInstances'>['instances'][number];
type OwnedVolume = AnswerOf<'listAllVolumes'>['volumes'][number];

/** An instance with its disks, or a volume. */
export interface DiskItem {
  id: string;
  kind: 'instance' | 'volume';
  name: string;
  accountId: string;
  username: string;
  usedGB: number;
  sizeGB: number;
  status: string;
  instance?: InstanceObject;
}

export interface AccountDisks {
  accountId: string;
  username: string;
  usedGB: number;
  sizeGB: number;
  items: readonly DiskItem[];
  /** Instances that an operator can stop. */
  stoppable: readonly DiskItem[];
}

const PAGE = 500;
const MOST_PAGES = 20;

export function itemOfInstance({ accountId, username, instance }: OwnedInstance): DiskItem {
  const { instanceDiskUsageInfo: used, instanceDiskAmountInfo: size, status } = instance.instanceRuntimeInfo;
  return {
    id: instance.instanceMetadata.instanceId,
    kind: 'instance',
    name: instance.instanceSpecInfo.name,
    accountId,
    username,
    usedGB: used.rootDiskUsedGi + used.dataDiskUsedGi,
    sizeGB: size.rootDiskAmountGi + size.dataDiskAmountGi,
    status,
    instance,
  };
}

export const itemOfVolume = ({ accountId, username, volume }: OwnedVolume): DiskItem => ({
  id: volume.id,
  kind: 'volume',
  name: volume.volumeName,
  accountId,
  username,
  usedGB: volume.usageGB,
  sizeGB: volume.sizeGB,
  status: volume.status,
});

export const byUse = (one: { usedGB: number; sizeGB: number }, other: { usedGB: number; sizeGB: number }): number =>
  other.usedGB - one.usedGB || other.sizeGB - one.sizeGB;

export const isStoppable = ({ instance }: DiskItem): boolean => instance?.actions.includes('stop') ?? false;

/** Sums of accounts, the one that wrote most first. */
export const accountsByUse = (items: readonly DiskItem[]): AccountDisks[] =>
  [...Map.groupBy(items, ({ accountId }) => accountId)]
    .map(([accountId, own]) => ({
      accountId,
      username: own[0]?.username ?? accountId,
      usedGB: own.reduce((sum, { usedGB }) => sum + usedGB, 0),
      sizeGB: own.reduce((sum, { sizeGB }) => sum + sizeGB, 0),
      items: own.toSorted(byUse),
      stoppable: own.filter(isStoppable),
    }))
    .toSorted(byUse);

interface Listed<Row> {
  rows: readonly Row[];
  total: number;
}

async function all<Row>(
  ask: (pager: { currentPage: number; pageSize: number }) => Promise<Listed<Row>>,
): Promise<Row[]> {
  const found: Row[] = [];
  for (let currentPage = 1; currentPage <= MOST_PAGES; currentPage += 1) {
    const { rows, total } = await ask({ currentPage, pageSize: PAGE });
    found.push(...rows);
    if (currentPage * PAGE >= total) break;
  }
  return found;
}

/** Of one account, by its ID, or of all. */
export const disksQuery = (account?: string) =>
  queryOptions({
    queryKey: ['operatorDisks', account],
    queryFn: async () => {
      const filter = account === undefined ? {} : { account };
      const [instances, volumes] = await Promise.all([
        all(async (pager) => {
          const answer = await api.listAllInstances({ pager, ...filter });
          return { rows: answer.instances, total: answer.pager.totalEntries };
        }),
        all(async (pager) => {
          const answer = await api.listAllVolumes({ pager, ...filter });
          return { rows: answer.volumes, total: answer.pager.totalEntries };
        }),
      ]);
      const held = instances.filter(({ instance }) => instance.instanceRuntimeInfo.status !== 'Released');
      return [...held.map(itemOfInstance), ...volumes.map(itemOfVolume)].toSorted(byUse);
    },
  });
