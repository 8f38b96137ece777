/**
 * The way to the engine: dockerode over one keep-alive agent, and `call`, which every request goes through.
 *
 * No API version is asked for, so the engine speaks its newest: pinning 1.41 (Docker 20.10) would lock out Docker 29, which
 * no longer speaks it, and what is used here means the same in all of them.
 */
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { Readable } from 'node:stream';
import { inspect } from 'node:util';
import Docker from 'dockerode';
import { faultOf } from './faults.ts';

export type Endpoint =
  | { socketPath: string }
  | { host: string; port: number; protocol: 'http' | 'https'; ca?: Buffer; cert?: Buffer; key?: Buffer };

/** Reads the text of `DOCKER_HOST`. Throws a sentence for the operator. */
export function endpointOf(dockerHost: string, tls?: { ca: Buffer; cert: Buffer; key: Buffer }): Endpoint {
  if (dockerHost.startsWith('/')) return { socketPath: dockerHost };
  const url = URL.canParse(dockerHost) ? new URL(dockerHost) : null;
  if (url?.protocol === 'unix:' && url.pathname !== '') return { socketPath: decodeURIComponent(url.pathname) };
  const secure = url?.protocol === 'https:' || tls !== undefined || url?.port === '2376';
  if (url !== null && ['tcp:', 'http:', 'https:'].includes(url.protocol) && url.hostname !== '') {
    const protocol = secure ? 'https' : 'http';
    return { host: url.hostname, port: Number(url.port || (secure ? 2376 : 2375)), protocol, ...tls };
  }
  throw new Error(`"${dockerHost}" is not an engine's address; give unix:///var/run/docker.sock or tcp://host:port`);
}

export interface Client {
  docker: Docker;
  /** On this machine, so that its folders, /proc and the containers' addresses are ours to look at. */
  local: boolean;
  /**
   * Runs one request under `signal`. Rejects with an `EngineFault` alone, and at once when the signal fires: dockerode's own
   * handling forgets a caller whose connection breaks in the middle of an answer.
   */
  call<T>(signal: AbortSignal, request: (abortSignal: AbortSignal) => Promise<T>): Promise<T>;
  /** A GET for which dockerode's types take no signal. */
  get(path: string, signal: AbortSignal): Promise<unknown>;
  /** The same, its answer as it comes. */
  stream(path: string, signal: AbortSignal): Promise<Readable>;
  stop(): void;
}

export function makeClient(endpoint: Endpoint): Client {
  const secure = 'protocol' in endpoint && endpoint.protocol === 'https';
  const agent = secure ? new HttpsAgent({ keepAlive: true }) : new HttpAgent({ keepAlive: true });
  // The modem writes out each request for a log that nobody reads, agent, sockets and buffers with it: 70 ms of processor a launch.
  Object.defineProperty(agent, inspect.custom, { value: () => 'Agent' });
  // All that dockerode would take from DOCKER_* of the environment is given here, if only as nothing.
  const nothing = { socketPath: undefined, host: undefined, port: undefined, timeout: undefined, version: undefined };
  const tls = { ca: undefined, cert: undefined, key: undefined };
  const options = { ...nothing, ...tls, protocol: 'http' as const, pathPrefix: '/', agent, ...endpoint };
  const docker = new Docker(options);

  const call: Client['call'] = async (signal, request) => {
    const aborted = Promise.withResolvers<never>();
    const onAbort = (): void => aborted.reject(signal.reason);
    try {
      signal.throwIfAborted();
      signal.addEventListener('abort', onAbort, { once: true });
      return await Promise.race([request(signal), aborted.promise]);
    } catch (error) {
      throw faultOf(signal.aborted ? signal.reason : error);
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  };

  const ask = (path: string, signal: AbortSignal, isStream: boolean): Promise<unknown> =>
    call(
      signal,
      (abortSignal) =>
        new Promise((resolve, reject) => {
          // Of a path with a query the modem cuts the last character, in which it expects a lone question mark.
          const whole = path.includes('?') ? `${path}&` : path;
          const statusCodes = { 200: true, 500: 'server error' };
          const request = { path: whole, method: 'GET', isStream, abortSignal, statusCodes };
          docker.modem.dial(request, (error: unknown, answer: unknown) => (error ? reject(error) : resolve(answer)));
        }),
    );
  const get: Client['get'] = (path, signal) => ask(path, signal, false);
  const stream: Client['stream'] = async (path, signal) => {
    const answer = await ask(path, signal, true);
    if (!(answer instanceof Readable)) throw new Error(`the engine's answer to ${path} is no stream`);
    return answer;
  };

  return { docker, local: 'socketPath' in endpoint, call, get, stream, stop: () => agent.destroy() };
}
