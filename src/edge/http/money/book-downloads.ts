/** Files of the books: streamed, whatever their length. */
import type { FastifyInstance } from 'fastify';
import { routes } from '../../../contract/routes.ts';
import type { Caller, Control } from '../../../control/index.ts';
import { sendDownload } from '../download.ts';
import { focusCsv } from './focus-csv.ts';
import { HTML_TYPE } from '../html.ts';
import { rowOptions, type StreamParts } from '../mount.ts';
import { inSteps } from '../report-queue.ts';
import { queryOf } from '../request.ts';
import { PRINT_POLICY, statementCsv, statementPage } from './statement-files.ts';
import { statementXlsx } from './statement-xlsx.ts';
import { makeValidate } from '../validate.ts';

export const CSV_TYPE = 'text/csv; charset=utf-8';
const XLSX_TYPE = 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet';

interface Asked {
  month: string;
  timeZone: string;
}

interface BookFile {
  name: string;
  type: string;
  /** Refusals come before the first byte. */
  open(control: Control, caller: Caller, asked: Asked): Promise<AsyncIterable<string | Uint8Array>>;
}

const files = {
  statementCsv: {
    name: 'statement',
    type: CSV_TYPE,
    open: async ({ statements }, caller, asked) => statementCsv(await statements.whole(caller, asked)),
  },
  statementXlsx: {
    name: 'statement',
    type: XLSX_TYPE,
    open: async ({ statements }, caller, asked) => statementXlsx(await statements.whole(caller, asked)),
  },
  statementPage: {
    name: 'statement',
    type: HTML_TYPE,
    open: async ({ statements }, caller, asked) =>
      statementPage(await statements.whole(caller, asked), caller.username),
  },
  focusCsv: {
    name: 'focus',
    type: CSV_TYPE,
    open: async ({ chargeExports }, caller, asked) => focusCsv(await chargeExports.own(caller, asked)),
  },
  focusCsvOfAll: {
    name: 'focus-all',
    type: CSV_TYPE,
    open: async ({ chargeExports }, _caller, asked) => focusCsv(await chargeExports.all(asked)),
  },
} as const satisfies Record<string, BookFile>;

export type BookFileName = keyof typeof files;

export function mountBookFile(app: FastifyInstance, deps: StreamParts, routeName: BookFileName): void {
  const route = routes[routeName];
  const { name, type, open }: BookFile = files[routeName];
  const validate = makeValidate(route.query, { unknown: 'refuse' });
  app.route({
    ...rowOptions(route),
    async handler(request, reply) {
      const caller = await deps.authorize(request, route, reply);
      const asked = validate(queryOf(request, route.query));
      await deps.reports.run(caller.accountId, async (runStep) => {
        const source = await runStep(() => open(deps.control, caller, asked));
        await deps.recordRequest(request, reply);
        await deps.streams.open({ request, reply, caller }, async ({ abort }) => {
          const headers = {
            'content-type': type,
            ...headersOf(type, `${name}-${asked.month}.${type === XLSX_TYPE ? 'xlsx' : 'csv'}`),
          };
          const { stalledMs, log } = deps;
          const download = { what: 'a download of the books', request, reply, status: 200, headers };
          const steps = inSteps(source, runStep);
          await sendDownload({ ...download, source: steps, signal: abort.signal, stalledMs, log });
        });
      });
    },
  });
}

function headersOf(type: string, file: string): Record<string, string> {
  if (type === HTML_TYPE) return { 'content-security-policy': PRINT_POLICY, 'x-frame-options': 'DENY' };
  return {
    'content-disposition': `attachment; filename="${file}"`,
    'content-security-policy': "default-src 'none'; sandbox",
  };
}
