/** The part of the document that is about the bytes of files: their bodies are no JSON, and so they are outside of the table of routes. */
import type { ErrorCode } from './errors.ts';
import { FILE_TYPE } from './file.ts';
import type { Json } from './openapi.ts';

type JsonObject = { [name: string]: Json };

const ALWAYS: readonly ErrorCode[] = [
  'not_logged_in',
  'forbidden',
  'field_value',
  'not_found',
  'not_now',
  'too_many_requests',
  'unavailable',
  'internal',
];

const header = (name: string, description: string): JsonObject => ({
  name,
  in: 'header',
  required: false,
  description,
  schema: { type: 'string' },
});

const DOWNLOAD_HEADERS = [
  header('If-None-Match', 'Tags of the file as it is known: 304 while it is unchanged'),
  header('If-Match', 'Tags of the file as it is wanted: 412 when it has changed'),
];
const RANGE_HEADERS = [
  header(
    'Range',
    'One range of bytes, such as `bytes=1000-`: 206 with that part. Of several at once the whole file comes',
  ),
  header('If-Range', 'The tag of the file that the part is for: the whole file comes when it has changed'),
];

export function filePaths({
  problems,
  commonHeaders,
  written,
}: {
  problems: (codes: readonly ErrorCode[]) => JsonObject;
  commonHeaders: JsonObject;
  /** What an upload answers. */
  written: JsonObject;
}): JsonObject {
  const ETag: JsonObject = { description: 'Another after each change of the file', schema: { type: 'string' } };
  const bytes: JsonObject = { [FILE_TYPE]: { schema: { type: 'string', format: 'binary' } } };
  const described = (name: string, summary: string, description: string): JsonObject => ({
    operationId: name,
    summary,
    description: `${description} Source of the rule: ours.`,
    tags: ['storage'],
  });
  const done = (description: string, more: JsonObject = {}, headers: JsonObject = { ETag }): JsonObject => ({
    description,
    headers: { ...headers, ...commonHeaders },
    ...more,
  });
  const uploaded: JsonObject = { content: { 'application/json': { schema: written } } };
  return {
    parameters: [
      { name: 'id', in: 'path', required: true, description: 'The volume', schema: { type: 'string' } },
      {
        name: 'path',
        in: 'path',
        required: true,
        description:
          'Relative to the volume: names of at most 255 bytes of UTF-8 with one slash between them, each percent-encoded. ' +
          'No link is followed, wherever it leads',
        schema: { type: 'string' },
      },
    ],
    get: {
      ...described(
        'downloadFile',
        'Download a file of a volume, or a part of it',
        'It comes as an attachment of no type, whatever it holds.',
      ),
      parameters: [...DOWNLOAD_HEADERS, ...RANGE_HEADERS],
      responses: {
        200: done('The file', { content: bytes }),
        206: done('The part that was asked for', { content: bytes }),
        304: done('It is unchanged'),
        ...problems([...ALWAYS, 'precondition_failed', 'range_not_satisfiable']),
      },
    },
    head: {
      ...described('headFile', 'What a download of a file would say, without its bytes', 'For its size, and its tag.'),
      parameters: DOWNLOAD_HEADERS,
      responses: {
        200: done('The file is there'),
        304: done('It is unchanged'),
        ...problems([...ALWAYS, 'precondition_failed']),
      },
    },
    put: {
      ...described(
        'uploadFile',
        'Upload a file into a volume, in place of the one that has the name',
        'The folder that it goes into has to be there. The file before stays until all is on disk; an upload that is cut off leaves nothing. ' +
          'It belongs to root, with mode 0644.',
      ),
      parameters: [header('If-None-Match', '`*`: 412 where the name is taken, instead of taking its place')],
      requestBody: {
        required: false,
        description: 'The bytes of the file as they are, whatever their content type says',
        content: bytes,
      },
      responses: {
        200: done('It is in the place of the file before', uploaded),
        201: done('It is there', uploaded),
        ...problems([...ALWAYS, 'precondition_failed', 'volume_full']),
      },
    },
    delete: {
      ...described(
        'deleteFile',
        'Delete a file, link or folder of a volume',
        'A link is deleted itself, not what it leads to.',
      ),
      parameters: [
        {
          name: 'recursive',
          in: 'query',
          required: false,
          description: 'Also a folder that is not empty, with all that is in it',
          schema: { type: 'boolean', default: false },
        },
      ],
      responses: { 204: done('It is gone', {}, {}), ...problems([...ALWAYS, 'in_use']) },
    },
  };
}
