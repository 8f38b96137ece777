/** Files of a volume: lists as JSON, contents as bytes (`bytes` routes), calls of the client. */
import { z } from 'zod';
import { fileKinds } from '../../domain/storage/paths.ts';
import {
  answer,
  emptyAnswer,
  type ErrorCode,
  flag,
  id,
  integer,
  request,
  text,
  textOrNull,
  unixMs,
  wholeNumber,
} from '../common.ts';
import { bytesRoute, jsonRoute, readRoute, streamCodes } from '../route.ts';

export const FILE_PATH = '/storage/volume/{id}/files/{path}';
/** Type of every download: a browser must not render a file as a page of the API's origin. */
export const FILE_TYPE = 'application/octet-stream';

/** URL of a file under `/api`. */
export const fileUrl = (volumeId: string, path: string): string =>
  FILE_PATH.replace('{id}', encodeURIComponent(volumeId)).replace('{path}', () =>
    path.split('/').map(encodeURIComponent).join('/'),
  );

export const MAX_FILES_LISTED = 1000;
/** UTF-8 needs at least one byte for a character, so the byte limit bounds the characters. */
const MAX_PATH = 4096;
const MAX_CURSOR = 1024 * 1024;

const path = z.string().meta({ maxLength: MAX_PATH });

export const fileListRequest = request('ListFilesRequest', {
  id: id.describe('Volume ID'),
  path: path.describe('Folder relative to the volume, names joined by one slash; empty for the top folder'),
  limit: wholeNumber(1, MAX_FILES_LISTED).default(MAX_FILES_LISTED).describe('Entries on a page'),
  after: z.string().meta({ maxLength: MAX_CURSOR }).describe('`next` of the previous page').optional(),
});

export const fileEntry = answer('FileEntry', {
  name: text('File name'),
  reachable: flag('False for a name that is not UTF-8: no path can express it'),
  kind: z.enum(fileKinds).describe('Kind of entry; `link` is a symbolic link'),
  sizeBytes: integer('Size in bytes'),
  modifiedAtUnixMs: unixMs('Last modification'),
  mode: text('Permissions in octal, such as 0644'),
});

export const fileListAnswer = answer('ListFilesAnswer', {
  files: z.array(fileEntry).describe('Entries by name'),
  next: textOrNull('Cursor of the next page; null on the last page'),
});

export const folderBody = request('CreateFolderRequest', {
  id: id.describe('Volume ID'),
  path: path.describe('Folder relative to the volume'),
});

export const fileWritten = answer('FileWritten', {
  sizeBytes: integer('Size in bytes'),
  modifiedAtUnixMs: unixMs('Time of the write'),
});

interface FileOptions {
  signal?: AbortSignal;
}

export interface FileCalls {
  /** Response with its body unread: 200 for the file, 206 for a range. */
  downloadFile(
    volumeId: string,
    path: string,
    options?: FileOptions & {
      from?: number;
      /** ETag that `from` refers to; the whole file follows after a change. */
      ifSame?: string;
    },
  ): Promise<Response>;
  /** Replaces a file of the name unless `onlyNew`. Takes any body of `fetch`. */
  uploadFile(
    volumeId: string,
    path: string,
    body: NonNullable<RequestInit['body']>,
    options?: FileOptions & { onlyNew?: boolean },
  ): Promise<void>;
  deleteFile(volumeId: string, path: string, options?: FileOptions & { recursive?: boolean }): Promise<void>;
}

/** Returns a successful response with its body unread. */
type FileFetch = (
  url: string,
  init: { method: string; headers?: Record<string, string>; body?: RequestInit['body']; signal?: AbortSignal },
) => Promise<Response>;

export function fileCalls(call: FileFetch): FileCalls {
  return {
    downloadFile: (volumeId, path, { from, ifSame, ...rest } = {}) =>
      call(fileUrl(volumeId, path), {
        method: 'GET',
        headers: {
          ...(from === undefined ? {} : { range: `bytes=${from}-` }),
          ...(ifSame === undefined ? {} : { 'if-range': ifSame }),
        },
        ...rest,
      }),
    async uploadFile(volumeId, path, body, { onlyNew = false, ...rest } = {}) {
      const headers: Record<string, string> = onlyNew ? { 'if-none-match': '*' } : {};
      const response = await call(fileUrl(volumeId, path), {
        method: 'PUT',
        headers,
        body,
        ...(body instanceof ReadableStream ? STREAMED : {}),
        ...rest,
      });
      await response.arrayBuffer();
    },
    async deleteFile(volumeId, path, { recursive = false, ...rest } = {}) {
      await call(`${fileUrl(volumeId, path)}${recursive ? '?recursive=true' : ''}`, { method: 'DELETE', ...rest });
    },
  };
}

/** `fetch` requires it for streamed bodies; its types lack it. */
const STREAMED: object = { duplex: 'half' };

export const fileRoutes = {
  listFiles: readRoute('/storage/files/list', fileListRequest, fileListAnswer, {
    compressed: true,
    summary: 'List a folder of a volume by name, page by page',
  }),
  createFolder: jsonRoute('/storage/files/createFolder', folderBody, emptyAnswer, {
    fills: true,
    summary: 'Create a folder in a volume with its missing parents; an existing folder stays',
  }),
} as const;

const ofFile: readonly ErrorCode[] = [...streamCodes, 'not_found', 'not_now'];
const noQuery = z.object({});
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

export const fileByteRoutes = {
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
