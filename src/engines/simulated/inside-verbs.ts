/** Verbs that reach into an instance: logs, commands, ports, network and sockets. */
import type { InstanceId } from '../../domain/ids.ts';
import type { Engine, LogSource } from '../contract.ts';
import { reachable } from './answers.ts';
import { emulate, type CommandContext } from './commands.ts';
import type { Container } from './container.ts';
import type { EngineContext } from './context.ts';
import { simulatedFault } from './faults.ts';
import { emptyLog, follow, inRange, read } from './logs.ts';
import { emptyNetwork, joinNetwork, listenUnix } from './networks.ts';
import { makePair } from './pair.ts';
import { openProcess } from './processes.ts';
import { runCommand } from './shell.ts';

type LogVerbs = Pick<Engine, 'logs' | 'followLogs'>;
type CommandVerbs = Pick<Engine, 'openExec' | 'exec'>;
type NetworkVerbs = Pick<Engine, 'dial' | 'joinNetwork' | 'listenUnix'>;

export const insideVerbs = (context: EngineContext): LogVerbs & CommandVerbs & NetworkVerbs => ({
  ...logVerbs(context),
  ...commandVerbs(context),
  ...networkVerbs(context),
});

function logVerbs({ host, calls, find, requireRunning, stopped }: EngineContext): LogVerbs {
  function withLog(id: InstanceId, source: LogSource): Container {
    const container = find(id);
    if (container === undefined) throw simulatedFault('not_found', `${id} is not there`);
    return source === 'init' ? requireRunning(id) : container;
  }

  return {
    logs: (id, source, range, signal) =>
      calls.call({
        verb: 'logs',
        about: id,
        signal,
        work: () => read(inRange(withLog(id, source), source, range, host.clock.now()), { source, signal }),
        lie: emptyLog,
      }),
    followLogs: (id, source, range, signal) =>
      calls.call({
        verb: 'followLogs',
        about: id,
        signal,
        work: () => follow(host, withLog(id, source), { source, range, signal: AbortSignal.any([signal, stopped]) }),
        lie: emptyLog,
      }),
  };
}

function commandVerbs({ host, calls, requireRunning, attachTo }: EngineContext): CommandVerbs {
  const insideOf = (container: Container) => (): CommandContext => ({
    container,
    nowMs: host.clock.now(),
    reaches: (address, port) => reachable(host, container, address, port),
    onWrite: () => host.persist(container),
  });

  return {
    openExec: (id, request, signal) =>
      calls.call({
        verb: 'openExec',
        about: id,
        signal,
        work: () => {
          const container = requireRunning(id);
          const { clock } = host;
          const attach = attachTo(container);
          const inside = insideOf(container);
          return openProcess({
            request,
            attach,
            program: (io) => runCommand({ inside, clock, io, env: request.env }, request),
          });
        },
        lie: () => openProcess({ request, attach: () => () => {}, program: async () => 0 }),
      }),
    exec: (id, command, signal) =>
      calls.call({
        verb: 'exec',
        about: id,
        signal,
        work: () => emulate(insideOf(requireRunning(id))(), command),
        lie: () => ({ exitCode: 0, stdout: '', stderr: '' }),
      }),
  };
}

function networkVerbs({ host, capabilities, calls, requireRunning, attachTo }: EngineContext): NetworkVerbs {
  return {
    dial: (id, port, signal) =>
      calls.call({
        verb: 'dial',
        about: id,
        signal,
        work: () => {
          const stream = host.connect(requireRunning(id), port);
          if (stream === undefined) throw simulatedFault('busy', `nothing listens on port ${port} of ${id} (yet)`);
          return stream;
        },
        lie: () => {
          const [inside, outside] = makePair();
          inside.destroy();
          return outside;
        },
      }),
    joinNetwork: (id, signal) =>
      calls.call({
        verb: 'joinNetwork',
        about: id,
        signal,
        work: () => {
          if (!capabilities.joinNetwork)
            throw simulatedFault('rejected', 'this engine can not join the networks of instances');
          const container = requireRunning(id);
          return joinNetwork({ host, container, attach: attachTo(container) });
        },
        lie: () => emptyNetwork,
      }),
    listenUnix: (id, onConnection, signal) =>
      calls.call({
        verb: 'listenUnix',
        about: id,
        signal,
        work: () => {
          const container = requireRunning(id);
          return listenUnix({ host, container, attach: attachTo(container) }, onConnection);
        },
        lie: () => ({ pathInside: '/etc/berth/sockets/nothing', close: () => {} }),
      }),
  };
}
