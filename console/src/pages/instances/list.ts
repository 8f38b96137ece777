/** The list of instances that a view shows. */
import { api } from '../../app/api.ts';
import type { ListedPages } from '../../parts/paged-table.tsx';
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';
import { filtersOf, type InstanceSearch } from './search.ts';

export function instancesOf(search: InstanceSearch): ListedPages<InstanceObject> {
  const filters = filtersOf(search);
  return {
    queryKey: ['instances', 'list', filters],
    async fetchPage(pager) {
      const { instances: rows, pager: found } = await api.listInstances({ pager, ...filters });
      return { rows, total: found.totalEntries };
    },
  };
}
