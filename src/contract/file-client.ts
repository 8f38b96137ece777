/** File part of the client. */
import { fileUrl } from './file.ts';

interface FileOptions {
  signal?: AbortSignal;
}

export interface FileCalls {
  /** Response with its body unread: 200 for the file, 206 for a range. */
  downloadFile(
    volumeId: string,
    path: string,
    options?: FileOptions & {
      /** First byte. */
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
export type Call = (
  url: string,
  init: { method: string; headers?: Record<string, string>; body?: RequestInit['body']; signal?: AbortSignal },
) => Promise<Response>;

export function fileCalls(call: Call): FileCalls {
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
      const answer = await call(fileUrl(volumeId, path), {
        method: 'PUT',
        headers,
        body,
        ...(body instanceof ReadableStream ? STREAMED : {}),
        ...rest,
      });
      await answer.arrayBuffer();
    },
    async deleteFile(volumeId, path, { recursive = false, ...rest } = {}) {
      await call(`${fileUrl(volumeId, path)}${recursive ? '?recursive=true' : ''}`, { method: 'DELETE', ...rest });
    },
  };
}

/** `fetch` requires it for streamed bodies; its types lack it. */
const STREAMED: object = { duplex: 'half' };
