import { routeNames, routeOf } from '../../../contract/routes.ts';
import type { Audit } from '../../../control/index.ts';
import type { ClosedHandlers } from './handler.ts';

const readNames = routeNames.filter((name) => routeOf(name).reads);

export const auditHandlers = (audit: Pick<Audit, 'list'>) =>
  ({
    async listAudit(_, { body: { pager, fromUnixMs, toUnixMs, withoutReads = false, ...filter } }) {
      const onlyRefusedOf = withoutReads ? readNames : [];
      const found = await audit.list({ ...filter, onlyRefusedOf, fromMs: fromUnixMs, toMs: toUnixMs }, pager);
      return {
        records: found.records.map(({ atMs, subjects, ...record }) => ({
          ...record,
          atUnixMs: atMs,
          subjectIds: subjects,
        })),
        pager: { ...pager, totalEntries: found.totalEntries },
      };
    },
  }) satisfies Partial<ClosedHandlers>;
