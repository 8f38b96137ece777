/**
 * dockerode over one agent: a socket of this machine, TLS, or an ssh connection. No API version is
 * pinned: Docker 29 rejects 1.41 (20.10's), and the calls used here mean the same in all versions.
 */
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { Readable, type Duplex } from 'node:stream';
import { inspect } from 'node:util';
import Docker from 'dockerode';
import { raceAbort } from '../async/abort.ts';
import { faultOf } from './faults.ts';
import { openSshConnection, type SshConnection, type SshTarget } from './ssh-connection.ts';

export type Endpoint =
  | { socketPath: string }
  | { host: string; port: number; protocol: 'http' | 'https'; ca?: Buffer; cert?: Buffer; key?: Buffer }
  | { ssh: SshTarget };

/** Parses `DOCKER_HOST`. Throws with a message for the operator. */
export function endpointOf(dockerHost: string, tls?: { ca: Buffer; cert: Buffer; key: Buffer }): Endpoint {
  if (dockerHost.startsWith('/')) return { socketPath: dockerHost };
  const url = URL.canParse(dockerHost) ? new URL(dockerHost) : null;
  if (url?.protocol === 'unix:' && url.pathname !== '') return { socketPath: decodeURIComponent(url.pathname) };
  const secure = url?.protocol === 'https:' || tls !== undefined || url?.port === '2376';
  if (url !== null && ['tcp:', 'http:', 'https:'].includes(url.protocol) && url.hostname !== '') {
    const protocol = secure ? 'https' : 'http';
    return { host: url.hostname, port: Number(url.port || (secure ? 2376 : 2375)), protocol, ...tls };
  }
  throw new Error(
    `"${dockerHost}" is not the address of an engine; use unix:///var/run/docker.sock or tcp://host:port`,
  );
}

export interface DockerClient {
  docker: Docker;
  /** The engine is on this machine: folders, /proc and containers' addresses are accessible. */
  local: boolean;
  /** Connects from the engine's host; null where no connection leads there. */
  connectThere: ((host: string, port: number, signal: AbortSignal) => Promise<Duplex>) | null;
  /** Rejects with an `EngineFault`, on abort at once: dockerode never settles a broken answer. */
  call<T>(signal: AbortSignal, request: (abortSignal: AbortSignal) => Promise<T>): Promise<T>;
  /** GET for calls whose dockerode types take no signal. */
  get(path: string, signal: AbortSignal): Promise<unknown>;
  stream(path: string, signal: AbortSignal): Promise<Readable>;
  stop(): void;
}

export function makeDockerClient(endpoint: Endpoint): DockerClient {
  const ssh = 'ssh' in endpoint ? openSshConnection(endpoint.ssh) : null;
  const agent = agentOf(endpoint, ssh);
  // The modem inspects each request for a debug log, agent and sockets included: 70 ms a launch.
  Object.defineProperty(agent, inspect.custom, { value: () => 'Agent' });
  // Every option that dockerode would read from DOCKER_* is set, if only to undefined.
  const unset = { socketPath: undefined, host: undefined, port: undefined, timeout: undefined, version: undefined };
  const tls = { ca: undefined, cert: undefined, key: undefined };
  // The agent alone decides where a request over ssh goes.
  const address = 'ssh' in endpoint ? { host: 'docker', port: 80 } : endpoint;
  const options = { ...unset, ...tls, protocol: 'http' as const, pathPrefix: '/', agent, ...address };
  const docker = new Docker(options);

  const call: DockerClient['call'] = async (signal, request) => {
    try {
      signal.throwIfAborted();
      return await raceAbort(request(signal), signal);
    } catch (error) {
      throw faultOf(signal.aborted ? signal.reason : error);
    }
  };

  const request = (path: string, signal: AbortSignal, isStream: boolean): Promise<unknown> =>
    call(
      signal,
      (abortSignal) =>
        new Promise((resolve, reject) => {
          // The modem removes the last character of a path with a query, expecting a lone `?`.
          const padded = path.includes('?') ? `${path}&` : path;
          const statusCodes = { 200: true, 500: 'server error' };
          const options_ = { path: padded, method: 'GET', isStream, abortSignal, statusCodes };
          docker.modem.dial(options_, (error: unknown, answer: unknown) => (error ? reject(error) : resolve(answer)));
        }),
    );
  const get: DockerClient['get'] = (path, signal) => request(path, signal, false);
  const stream: DockerClient['stream'] = async (path, signal) => {
    const answer = await request(path, signal, true);
    if (!(answer instanceof Readable)) throw new Error(`the engine's answer to ${path} is not a stream`);
    return answer;
  };

  return {
    docker,
    local: 'socketPath' in endpoint,
    connectThere: ssh && ssh.connect,
    call,
    get,
    stream,
    stop() {
      agent.destroy();
      ssh?.close();
    },
  };
}

function agentOf(endpoint: Endpoint, ssh: SshConnection | null): HttpAgent {
  if (ssh !== null) return ssh.agent;
  const secure = 'protocol' in endpoint && endpoint.protocol === 'https';
  return secure ? new HttpsAgent({ keepAlive: true }) : new HttpAgent({ keepAlive: true });
}
