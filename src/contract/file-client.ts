/** The part of the client that is about the bytes of files (`file.ts`). */
import { fileUrl } from './file.ts';

interface FileOptions {
  signal?: AbortSignal;
}

export interface FileCalls {
  /** The answer as `fetch` gives it, its body unread: 200 with all of it, or 206 with the part that was asked for. */
  downloadFile(
    volumeId: string,
    path: string,
    options?: FileOptions & {
      /** The first byte that is wanted; such as how many are there already. */
      from?: number;
      /** The tag of the file that `from` is of: all of it comes when it has changed. */
      ifSame?: string;
    },
  ): Promise<Response>;
  /** In place of the file that has the name, unless `onlyNew`. The body is whatever `fetch` takes, such as a file of a form. */
  uploadFile(
    volumeId: string,
    path: string,
    body: NonNullable<RequestInit['body']>,
    options?: FileOptions & { onlyNew?: boolean },
  ): Promise<void>;
  deleteFile(volumeId: string, path: string, options?: FileOptions & { recursive?: boolean }): Promise<void>;
}

/** Answers what is no refusal, with its body unread. */
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

/** `fetch` asks for it where a body's length is not known; its types don't know it. */
const STREAMED: object = { duplex: 'half' };
