/** Files of a volume, without an instance. Bytes go in and out by URL (`filePath`), all else as JSON. */
import { z } from 'zod';
import { id } from './common.ts';

/** GET and HEAD download, PUT uploads, DELETE deletes; in the form of a URI template. */
export const FILE_PATH = '/storage/volume/{id}/files/{path}';
export const FILE_METHODS = ['GET', 'HEAD', 'PUT', 'DELETE'] as const;
/** Of every file: what it holds is its owner's, and never shown by a browser as a page of the API's origin. */
export const FILE_TYPE = 'application/octet-stream';

/** Where a file is, under `/api`: each name of its path is encoded for itself. */
export const fileUrl = (volumeId: string, path: string): string =>
  FILE_PATH.replace('{id}', encodeURIComponent(volumeId)).replace('{path}', () =>
    path.split('/').map(encodeURIComponent).join('/'),
  );

export const fileKinds = ['file', 'folder', 'link', 'other'] as const;
export const MAX_FILES_LISTED = 1000;

const path = z.string().describe("Relative to the volume, names with one slash between them; '' is its own folder");

export const fileListRequest = z.object({
  id,
  path,
  limit: z.number().int().min(1).max(MAX_FILES_LISTED).default(MAX_FILES_LISTED),
  after: z.string().describe('The `next` of the page before').optional(),
});

export const fileEntry = z.strictObject({
  name: z.string(),
  reachable: z.boolean().describe('False for a name that is no UTF-8, which no path can say'),
  kind: z.enum(fileKinds),
  sizeBytes: z.number().int(),
  modifiedAtUnixMs: z.number().int(),
  mode: z.string().describe('Permissions in octal, such as 0644'),
});

export const fileListAnswer = z.strictObject({
  files: z.array(fileEntry),
  next: z.string().nullable().describe('Where the next page begins; null when there is none'),
});

export const folderBody = z.object({ id, path });

export const fileWritten = z.strictObject({ sizeBytes: z.number().int(), modifiedAtUnixMs: z.number().int() });
