/** View of the list of instances, as its address holds it. */
import { instanceStatuses, type InstanceStatus } from '../../../../src/contract/statuses.ts';

export interface InstanceSearch {
  q?: string;
  status?: InstanceStatus;
  sort?: string;
}

const isStatus = (value: unknown): value is InstanceStatus => instanceStatuses.some((status) => status === value);

export const readInstanceSearch = ({ q, status, sort }: Record<string, unknown>): InstanceSearch => ({
  ...(typeof q === 'string' && q !== '' ? { q } : {}),
  ...(isStatus(status) ? { status } : {}),
  ...(typeof sort === 'string' ? { sort } : {}),
});
