/** Sends a file with its progress, which `fetch` does not report. */
import { ApiError, refusalOf } from '../../../../../src/contract/client.ts';
import { fileUrl } from '../../../../../src/contract/storage/file.ts';
import { base } from '../../../app/base.ts';
import type { SendOptions } from './uploads.ts';

export const addressOfFile = (volumeId: string, path: string): string => `${base}/api${fileUrl(volumeId, path)}`;

export function sendFile(
  volumeId: string,
  path: string,
  file: Blob,
  { isReplacing, signal, onProgress }: SendOptions,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const abort = (): void => request.abort();
    const url = addressOfFile(volumeId, path);
    request.open('PUT', url);
    if (!isReplacing) request.setRequestHeader('if-none-match', '*');
    request.upload.addEventListener('progress', ({ loaded }) => onProgress(loaded));
    request.addEventListener('load', () => (request.status < 300 ? resolve() : reject(refused(request))));
    request.addEventListener('error', () =>
      reject(new ApiError(`the server cannot be reached at ${url}`, { status: 0, code: 'unreachable' })),
    );
    request.addEventListener('abort', () => reject(new DOMException('the upload was cancelled', 'AbortError')));
    request.addEventListener('loadend', () => signal.removeEventListener('abort', abort));
    signal.addEventListener('abort', abort);
    request.send(file);
  });
}

const refused = (request: XMLHttpRequest): ApiError =>
  refusalOf(request.status, (name) => request.getResponseHeader(name), jsonOf(request.responseText));

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
