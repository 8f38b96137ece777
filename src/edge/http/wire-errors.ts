/** Answers requests that are not valid HTTP, on the bare socket. */
import type { Socket } from 'node:net';

interface WireError extends Error {
  code?: string;
}

const REPLIES: Record<string, { status: string; message: string }> = {
  HPE_HEADER_OVERFLOW: {
    status: '431 Request Header Fields Too Large',
    message: 'the headers are too large: at most 16 KiB are read',
  },
  ERR_HTTP_REQUEST_TIMEOUT: { status: '408 Request Timeout', message: 'the request took too long to arrive' },
};
const MALFORMED = { status: '400 Bad Request', message: 'this is not a valid HTTP request' };

export const MAX_HEADER_BYTES = 16 * 1024;

export function answerWireError(error: WireError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, message } = REPLIES[error.code ?? ''] ?? MALFORMED;
  const body = JSON.stringify({ message });
  const head = `HTTP/1.1 ${status}\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}`;
  socket.end(`${head}\r\nconnection: close\r\n\r\n${body}`, () => socket.destroy());
}
