/** A terminal over a WebSocket in `berth.terminal.v1` (docs/reference/terminal.md). */
import type { WebSocket } from 'ws';
import { closeCodes, terminalClientMessage, type terminalServerMessage } from '../../contract/exec.ts';
import type { AttachedTerminal, TerminalMessage } from '../../control/index.ts';
import type { z } from 'zod';
import { BadMessage, makeLine, type Line, type LineDeps } from './socket-connection.ts';

interface Carried extends Pick<LineDeps, 'whyEnded' | 'beatMs'> {
  socket: WebSocket;
  name: string;
  attached: AttachedTerminal;
}

/** Resolves when either side ends. */
export function carryTerminal({ socket, name, attached, ...beats }: Carried): Line {
  const line = makeLine({
    socket,
    badMessage: closeCodes.badMessage,
    ...beats,
    take: (data, isText) => (isText ? attached.resize(sizeIn(data)) : attached.type(data)),
  });
  void line.closed.then(() => attached.leave());
  const tell = (told: z.output<typeof terminalServerMessage>): Promise<void> => line.send(JSON.stringify(told));
  const carry = async (): Promise<void> => {
    try {
      await tell({ type: 'attached', terminal: name, created: attached.created, ...attached.size });
      for await (const told of attached.messages) await pass(told, line, tell);
    } catch {
      // The socket is closed or closing.
      line.close(1011, 'the server failed');
    } finally {
      attached.leave();
    }
  };
  void carry();
  return line;
}

async function pass(
  told: TerminalMessage,
  line: Line,
  tell: (told: z.output<typeof terminalServerMessage>) => Promise<void>,
): Promise<void> {
  switch (told.kind) {
    case 'output':
      return line.send(told.bytes);
    case 'reset':
      return tell({ type: 'reset' });
    case 'size':
      return tell({ type: 'size', columns: told.columns, rows: told.rows });
    case 'ended':
      if (told.exitCode === null) return line.close(closeCodes.ended, told.why);
      await tell({ type: 'exit', exitCode: told.exitCode });
      return line.close(1000, told.why);
    case 'lost':
      return line.close(closeCodes.lost, told.why);
    default:
      return told satisfies never;
  }
}

function sizeIn(data: Buffer): z.output<typeof terminalClientMessage> {
  try {
    return terminalClientMessage.parse(JSON.parse(data.toString('utf8')));
  } catch {
    throw new BadMessage('a text message is {"type":"resize","columns":…,"rows":…}, each from 1 to 1000');
  }
}
