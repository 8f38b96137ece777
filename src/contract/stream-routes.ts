/** Rows of the routes whose answers are streams, WebSockets or bytes. */
import { z } from 'zod';
import { statementQuery } from './billing.ts';
import { wholeNumber, type ErrorCode } from './common.ts';
import { EXEC_PROTOCOL, execQuery, TERMINAL_PROTOCOL, terminalQuery } from './exec.ts';
import { FILE_PATH, FILE_TYPE, fileWritten } from './file.ts';
import { AFTER as LOG_CURSOR, LOG_TEXT_TYPE, logStreamRequest } from './log.ts';
import { adminBytesRoute, bytesRoute, eventsRoute, socketRoute } from './route.ts';
import { EVENT_STREAM_TYPE } from './server-sent.ts';

const always: readonly ErrorCode[] = [
  'not_logged_in',
  'forbidden',
  'field_value',
  'too_many_requests',
  'unavailable',
  'internal',
];
const ofInstance: readonly ErrorCode[] = [
  ...always,
  'field_missing',
  'field_type',
  'not_found',
  'not_now',
  'unsupported',
];
const ofBooks: readonly ErrorCode[] = [...always, 'field_missing', 'field_type'];
const csv = { status: 200, description: 'The file', contentTypes: ['text/csv'] };
const ofFile: readonly ErrorCode[] = [...always, 'not_found', 'not_now'];

const AFTER = 'Number of the last known event; by default the stream begins with new events';

const MAX_EVENT = 999_999_999_999_999;
const eventsQuery = z.object({ after: wholeNumber(0, MAX_EVENT).meta({ description: AFTER, example: 42 }).optional() });
const noQuery = z.object({});
const HEARTBEAT = 'A comment follows at least every 15 seconds.';
const PAGES = 'A page needs the cookie and the origin of the API.';

const filePath = {
  id: 'Volume ID',
  path:
    'Path relative to the volume: names of at most 255 bytes of UTF-8, each percent-encoded, joined by one slash. ' +
    'Symbolic links are not followed',
};
const conditions = [
  { name: 'If-None-Match', description: 'ETags of cached copies: 304 while the file is unchanged' },
  { name: 'If-Match', description: 'ETags of the expected file: 412 after a change' },
  { name: 'If-Modified-Since', description: 'Date of a cached copy: 304 while the file is no newer' },
  { name: 'If-Unmodified-Since', description: 'Date of the expected file: 412 if the file is newer' },
];
const ranges = [
  {
    name: 'Range',
    description: 'One range of bytes, such as `bytes=1000-`: 206. Several ranges return the whole file',
  },
  { name: 'If-Range', description: 'ETag of the file of the range: the whole file after a change' },
];
const uploaded = { contentTypes: ['application/json'], schema: fileWritten, etag: true };

export const streamRoutes = {
  events: eventsRoute('/events', eventsQuery, {
    summary: "Stream the account's events, numbered without holes (Server-Sent Events)",
    details:
      'Each event has its number as `id`, its kind as `event`, and as `data` the JSON ' +
      '`{seq, kind, subjectId, atUnixMs, data}`. An event `gap` with `{fromSeq, toSeq, why}` names expired numbers. ' +
      HEARTBEAT,
    headers: [{ name: 'Last-Event-ID', description: `${AFTER}. Overrides \`after\``, pattern: '^[0-9]{0,15}$' }],
    successes: [
      { status: 200, description: 'Stream until either side or the login ends it', contentTypes: [EVENT_STREAM_TYPE] },
    ],
    codes: always,
  }),
  followLogs: eventsRoute('/instance/logs', logStreamRequest, {
    summary: 'Stream the logs of an instance (Server-Sent Events), or download them',
    details:
      'Each line is an event `line` with the JSON `{atUnixMs, text, cut}` as `data` and a cursor as `id`. ' +
      '`gap` marks dropped lines, `status` (`{status}`) a new status of the instance, `end` (`{why}`) the end of the stream. ' +
      HEARTBEAT,
    headers: [
      {
        name: 'Last-Event-ID',
        pattern: LOG_CURSOR,
        description: 'Cursor, as `after`; overrides `tail` and `sinceUnixMs`. Browsers send it to resume',
      },
    ],
    successes: [
      {
        status: 200,
        description: 'Stream until its end, or until either side or the login ends it; or the download',
        contentTypes: [EVENT_STREAM_TYPE, LOG_TEXT_TYPE],
      },
      { status: 204, description: 'The resumed stream has ended; browsers stop reconnecting' },
    ],
    codes: ofInstance,
  }),
  openExec: socketRoute('/instance/exec', execQuery, {
    protocol: EXEC_PROTOCOL,
    summary: 'Run a command inside an instance, with open streams (WebSocket)',
    details: `docs/reference/terminal.md describes the messages and close codes of \`${EXEC_PROTOCOL}\`. ${PAGES}`,
    successes: [{ status: 101, description: 'The command runs' }],
    codes: [...ofInstance, 'no_capacity'],
  }),
  openTerminal: socketRoute('/instance/terminal', terminalQuery, {
    protocol: TERMINAL_PROTOCOL,
    summary: 'Attach to a terminal, which outlives its viewers and may have several (WebSocket)',
    details: `docs/reference/terminal.md describes the messages and close codes of \`${TERMINAL_PROTOCOL}\`. ${PAGES}`,
    successes: [{ status: 101, description: 'The terminal is attached' }],
    codes: [...ofInstance, 'no_capacity'],
  }),
  downloadFile: bytesRoute('GET', FILE_PATH, noQuery, {
    pathParameters: filePath,
    summary: 'Download a file of a volume, or a range of it',
    details: 'The answer is an attachment of type `application/octet-stream`, whatever the file holds.',
    headers: [...conditions, ...ranges],
    successes: [
      { status: 200, description: 'The file', contentTypes: [FILE_TYPE], etag: true },
      { status: 206, description: 'The requested range', contentTypes: [FILE_TYPE], etag: true },
      { status: 304, description: 'The file is unchanged', etag: true },
    ],
    codes: [...ofFile, 'precondition_failed', 'range_not_satisfiable'],
  }),
  headFile: bytesRoute('HEAD', FILE_PATH, noQuery, {
    pathParameters: filePath,
    summary: 'Read size and ETag of a file',
    headers: conditions,
    successes: [
      { status: 200, description: 'The file exists', etag: true },
      { status: 304, description: 'The file is unchanged', etag: true },
    ],
    codes: [...ofFile, 'precondition_failed'],
  }),
  uploadFile: bytesRoute('PUT', FILE_PATH, noQuery, {
    pathParameters: filePath,
    upload: 'Bytes of the file; the content type is ignored',
    summary: 'Upload a file into a volume, replacing a file of the name',
    details:
      'The folder must exist. The old file stays until the new one is on disk; an aborted upload leaves nothing. ' +
      'The file belongs to root, with mode 0644.',
    headers: [
      { name: 'If-None-Match', values: ['*'], description: '`*`: 412 if the name is taken, instead of a replacement' },
    ],
    successes: [
      { status: 200, description: 'The file was replaced', ...uploaded },
      { status: 201, description: 'The file was created', ...uploaded },
    ],
    codes: [...ofFile, 'precondition_failed', 'volume_full', 'storage_full'],
  }),
  statementCsv: bytesRoute('GET', '/billing/statement.csv', statementQuery, {
    pathParameters: {},
    summary: 'Download the statement of a month with all resources, as CSV',
    successes: [csv],
    codes: ofBooks,
  }),
  statementPage: bytesRoute('GET', '/billing/statement.html', statementQuery, {
    pathParameters: {},
    summary: 'Return the statement of a month as a page to print; of many resources the first',
    successes: [{ status: 200, description: 'The page', contentTypes: ['text/html'] }],
    codes: ofBooks,
  }),
  focusCsv: bytesRoute('GET', '/billing/focus.csv', statementQuery, {
    pathParameters: {},
    summary: 'Download the charges of a month in the columns of FOCUS 1.2',
    successes: [csv],
    codes: ofBooks,
  }),
  focusCsvOfAll: adminBytesRoute('/admin/billing/focus.csv', statementQuery, {
    pathParameters: {},
    summary: 'Download the charges of all accounts in a month in the columns of FOCUS 1.2 (administrators)',
    successes: [csv],
    codes: ofBooks,
  }),
  deleteFile: bytesRoute(
    'DELETE',
    FILE_PATH,
    z.object({ recursive: z.boolean().default(false).describe('Delete a folder with its contents') }),
    {
      pathParameters: filePath,
      summary: 'Delete a file, symbolic link or folder of a volume',
      details: 'Deletes a symbolic link, not its target.',
      successes: [{ status: 204, description: 'Deleted' }],
      codes: [...ofFile, 'in_use'],
    },
  ),
} as const;
