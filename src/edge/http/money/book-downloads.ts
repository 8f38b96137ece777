/** Files of the books: streamed, whatever their length. */
import type { FastifyInstance } from 'fastify';
import { XLSX_TYPE } from '../../../contract/money/billing.ts';
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
const types = { csv: CSV_TYPE, xlsx: XLSX_TYPE, html: HTML_TYPE };

interface Asked {
  month: string;
  timeZone: string;
}

interface BookFile {
  name: string;
  format: keyof typeof types;
  /** Refusals come before the first byte. */
  open(control: Control, caller: Caller, asked: Asked): Promise<AsyncIterable<string | Uint8Array>>;
}

const files = {
  statementCsv: {
    name: 'statement',
    format: 'csv',
    open: async ({ statements }, caller, asked) => statementCsv(await statements.whole(caller, asked)),
  },
  statementXlsx: {
    name: 'statement',
    format: 'xlsx',
    open: async ({ statements }, caller, asked) => statementXlsx(await statements.whole(caller, asked)),
  },
  statementPage: {
    name: 'statement',
    format: 'html',
    open: async ({ statements }, caller, asked) =>
      statementPage(await statements.whole(caller, asked), caller.username),
  },
  focusCsv: {
    name: 'focus',
    format: 'csv',
    open: async ({ chargeExports }, caller, asked) => focusCsv(await chargeExports.own(caller, asked)),
  },
  focusCsvOfAll: {
    name: 'focus-all',
    format: 'csv',
    open: async ({ chargeExports }, _caller, asked) => focusCsv(await chargeExports.all(asked)),
  },
} as const satisfies Record<string, BookFile>;

export type BookFileName = keyof typeof files;

export function mountBookFile(app: FastifyInstance, deps: StreamParts, routeName: BookFileName): void {
  const route = routes[routeName];
  const { name, format, open }: BookFile = files[routeName];
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
            'content-type': types[format],
            ...(format === 'html' ? pageHeaders : headersOf(`${name}-${asked.month}.${format}`)),
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

const pageHeaders = { 'content-security-policy': PRINT_POLICY, 'x-frame-options': 'DENY' };

const headersOf = (file: string) => ({
  'content-disposition': `attachment; filename="${file}"`,
  'content-security-policy': "default-src 'none'; sandbox",
});
