/** Sequential requests on one keep-alive connection, with minimal client cost. */
import { once } from 'node:events';
import { connect } from 'node:net';

const HEAD_END = '\r\n\r\n';

export interface Connection {
  /** Sends a whole request; returns the body of its 200 response. */
  ask(request: string): Promise<string>;
  close(): void;
}

export async function openConnection(port: number): Promise<Connection> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  let parts: Buffer[] = [];
  let waiting: PromiseWithResolvers<string> | null = null;
  socket.on('data', (part: Buffer) => {
    parts.push(part);
    const bytes = parts.length === 1 ? part : Buffer.concat(parts);
    const headBytes = bytes.indexOf(HEAD_END);
    if (headBytes === -1) return;
    const head = bytes.toString('latin1', 0, headBytes);
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1]);
    const from = headBytes + HEAD_END.length;
    if (bytes.length < from + length) return;
    parts = [];
    const body = bytes.toString('utf8', from);
    if (head.startsWith('HTTP/1.1 200')) waiting?.resolve(body);
    else waiting?.reject(new Error(`not a 200: ${head} ${body}`));
  });
  socket.on('close', () => waiting?.reject(new Error('the server closed the connection')));
  return {
    async ask(request) {
      waiting = Promise.withResolvers<string>();
      socket.write(request);
      return waiting.promise;
    },
    close: () => socket.destroy(),
  };
}
