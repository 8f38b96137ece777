import type { Audit } from '../../../control/index.ts';
import type { ClosedHandlers } from './handler.ts';

export const auditHandlers = (audit: Pick<Audit, 'list'>) =>
  ({
    async listAudit(_, { body: { pager, fromUnixMs, toUnixMs, ...filter } }) {
      const found = await audit.list({ ...filter, fromMs: fromUnixMs, toMs: toUnixMs }, pager);
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
