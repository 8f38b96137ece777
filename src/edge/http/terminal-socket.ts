/** WebSocket of terminals, `berth.terminal.v1` (docs/reference/terminal.md). */
import type { z } from 'zod';
import { routes } from '../../contract/routes.ts';
import type { Commands, Terminals } from '../../control/index.ts';
import { bridgeTerminal } from '../socket/carry-terminal.ts';
import type { SocketHandler } from './sockets.ts';

interface Deps {
  terminals: Pick<Terminals, 'attach'>;
  commands: Pick<Commands, 'check'>;
}

export const terminalSocket = ({
  terminals,
  commands,
}: Deps): SocketHandler<z.output<(typeof routes)['openTerminal']['query']>> => ({
  route: routes.openTerminal,
  check: (caller, { instanceId }) => commands.check(caller, instanceId),
  async open(caller, { instanceId, terminal: name, columns, rows }, gone) {
    const attached = await terminals.attach(caller, { instanceId, name, size: { columns, rows } }, gone);
    return {
      abandon: () => attached.leave(),
      serve: (socket, heartbeat) => bridgeTerminal({ socket, name, attached, ...heartbeat }),
    };
  },
});
