/** Verbs that reach into an instance: logs, commands, ports, network and sockets. */
import type { Duplex } from 'node:stream';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import type { Engine, EngineLogSource } from '../contract.ts';
import { emulate, type CommandContext } from './emulated-commands.ts';
import type { Container } from './container.ts';
import type { EngineContext } from './context.ts';
import { simulatedFault } from './injected-faults.ts';
import type { SimulatedHost } from './host.ts';
import { emptyLog, follow, inRange, read } from './logs.ts';
import { emptyNetwork, joinNetwork, listenUnix, type NetworkJoin } from './networks.ts';
import { makePair } from './pair.ts';
import { openProcess, type Io } from './processes.ts';
import { runInShell } from './shell.ts';

type LogVerbs = Pick<Engine, 'logs' | 'followLogs'>;
type CommandVerbs = Pick<Engine, 'openExec' | 'exec'>;
type NetworkVerbs = Pick<Engine, 'dial' | 'joinNetwork' | 'listenUnix'>;

export const insideVerbs = (context: EngineContext): LogVerbs & CommandVerbs & NetworkVerbs => ({
  ...logVerbs(context),
  ...commandVerbs(context),
  ...networkVerbs(context),
});

function logVerbs({ host, call, find, requireRunning, stopped }: EngineContext): LogVerbs {
  function withLog(id: InstanceId, source: EngineLogSource): Container {
    const container = find(id);
    if (container === undefined) throw simulatedFault('not_found', `${id} does not exist`);
    return source === 'console' ? container : requireRunning(id);
  }

  return {
    logs: (id, source, range, signal) =>
      call({ verb: 'logs', about: id, signal, lie: emptyLog }, () =>
        read(inRange(withLog(id, source), source, range, host.clock.now()), { source, signal }),
      ),
    followLogs: (id, source, range, signal) =>
      call({ verb: 'followLogs', about: id, signal, lie: emptyLog }, () =>
        follow(host, withLog(id, source), { source, range, signal: AbortSignal.any([signal, stopped]) }),
      ),
  };
}

function commandVerbs({ host, call, requireRunning, attachTo }: EngineContext): CommandVerbs {
  const insideOf = (container: Container) => (): CommandContext => ({
    container,
    nowMs: host.clock.now(),
    reaches: (address, port) => reachable(host, container, address, port),
    onWrite: () => host.persist(container),
  });

  return {
    openExec(id, request, signal) {
      const lie = () =>
        openProcess(
          request,
          async () => 0,
          () => () => {},
        );
      return call({ verb: 'openExec', about: id, signal, lie }, () => {
        const container = requireRunning(id);
        const shell = { inside: insideOf(container), clock: host.clock, env: request.env };
        const program = (io: Io): Promise<number> => runInShell({ ...shell, io }, request);
        return openProcess(request, program, attachTo(container));
      });
    },
    exec(id, command, signal) {
      const lie = () => ({ exitCode: 0, stdout: '', stderr: '' });
      return call({ verb: 'exec', about: id, signal, lie }, () => emulate(insideOf(requireRunning(id))(), command));
    },
  };
}

function reachable(host: SimulatedHost, from: Container, address: string, port: number): boolean {
  const other = host.neighbourAt(from, address);
  const stream = other && host.connect(other, port);
  stream?.destroy();
  return stream !== undefined;
}

function networkVerbs({ host, capabilities, call, requireRunning, attachTo }: EngineContext): NetworkVerbs {
  const joinOf = (id: InstanceId): NetworkJoin => {
    const container = requireRunning(id);
    return { host, container, attach: attachTo(container) };
  };

  return {
    dial(id, port, signal) {
      const lie = (): Duplex => {
        const [inside, outside] = makePair();
        inside.destroy();
        return outside;
      };
      return call({ verb: 'dial', about: id, signal, lie }, () => {
        const stream = host.connect(requireRunning(id), port);
        if (stream === undefined) throw simulatedFault('busy', `nothing listens on port ${port} of ${id} (yet)`);
        return stream;
      });
    },
    joinNetwork: (id, signal) =>
      call({ verb: 'joinNetwork', about: id, signal, lie: () => emptyNetwork }, () => {
        if (!capabilities.joinNetwork)
          throw simulatedFault('rejected', 'this engine cannot join the networks of instances');
        return joinNetwork(joinOf(id));
      }),
    listenUnix(id, onConnection, signal) {
      const lie = () => ({ pathInside: '/etc/berth/sockets/nothing', close: () => {} });
      return call({ verb: 'listenUnix', about: id, signal, lie }, () => {
        if (!capabilities.listenUnix) throw simulatedFault('rejected', 'this engine has no sockets inside instances');
        return listenUnix(joinOf(id), onConnection);
      });
    },
  };
}
