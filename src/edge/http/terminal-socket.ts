/** Terminals that can be left and taken up again: `GET /api/instance/terminal`, in `berth.terminal.v1` (docs/reference/terminal.md). */
import type { z } from 'zod';
import { TERMINAL_PATH, TERMINAL_PROTOCOL, terminalQuery } from '../../contract/exec.ts';
import type { Commands, Terminals } from '../../control/index.ts';
import { carryTerminal } from '../socket/carry-terminal.ts';
import type { SocketRoute } from './sockets.ts';

interface Deps {
  terminals: Pick<Terminals, 'attach'>;
  commands: Pick<Commands, 'check'>;
}

export const terminalSocket = ({ terminals, commands }: Deps): SocketRoute<z.output<typeof terminalQuery>> => ({
  path: TERMINAL_PATH,
  protocol: TERMINAL_PROTOCOL,
  query: terminalQuery,
  check: (caller, { instanceId }) => commands.check(caller, instanceId),
  async open(caller, { instanceId, terminal: name, columns, rows }, gone) {
    const attached = await terminals.attach(caller, { instanceId, name, size: { columns, rows } }, gone);
    return {
      abandon: () => attached.leave(),
      serve: (socket, kept) => carryTerminal({ socket, name, attached, ...kept }),
    };
  },
});
