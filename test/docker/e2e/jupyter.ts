/** As much of Jupyter's kernel protocol as running one cell takes. */
import { randomUUID } from 'node:crypto';
import WebSocket from 'ws';

const CELL_DEADLINE_MS = 60_000;

/** What runs code in a kernel, as its WebSocket takes it, and the id that its answers name. */
export function executeRequest(code: string): { id: string; text: string } {
  const header = {
    msg_id: randomUUID(),
    username: 'e2e',
    session: randomUUID(),
    msg_type: 'execute_request',
    version: '5.3',
  };
  const content = {
    code,
    silent: false,
    store_history: false,
    user_expressions: {},
    allow_stdin: false,
    stop_on_error: true,
  };
  const request = { channel: 'shell', header, parent_header: {}, metadata: {}, content, buffers: [] };
  return { id: header.msg_id, text: JSON.stringify(request) };
}

/** Runs `code` in a new Python kernel behind `notebookUrl` and answers what it printed. Headers go with every request. */
export async function runCell(notebookUrl: string, headers: Record<string, string>, code: string): Promise<string> {
  const made = await fetch(`${notebookUrl}api/kernels`, { method: 'POST', headers, body: '{"name":"python3"}' });
  if (!made.ok) throw new Error(`no kernel: ${made.status} ${await made.text()}`);
  const { id } = (await made.json()) as { id: string };
  const socket = new WebSocket(`${notebookUrl.replace('http', 'ws')}api/kernels/${id}/channels`, { headers });
  const request = executeRequest(code);
  try {
    return await new Promise<string>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('the cell did not end in time')), CELL_DEADLINE_MS);
      let printed = '';
      socket.on('error', reject);
      socket.on('open', () => socket.send(request.text));
      socket.on('message', (bytes: Buffer) => {
        const message = JSON.parse(bytes.toString());
        if (message.parent_header?.msg_id !== request.id) return;
        if (message.msg_type === 'stream') printed += message.content.text;
        if (message.msg_type === 'error') reject(new Error(message.content.traceback.join('\n')));
        if (message.msg_type === 'status' && message.content.execution_state === 'idle') resolve(printed);
        if (message.msg_type === 'execute_reply') clearTimeout(timer);
      });
    });
  } finally {
    socket.close();
    await fetch(`${notebookUrl}api/kernels/${id}`, { method: 'DELETE', headers });
  }
}
