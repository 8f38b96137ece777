/**
 * Finds a container engine. Docker and Podman speak the same API over a socket; since a socket file
 * alone proves nothing, each address is asked (`GET /_ping`).
 */
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import path from 'node:path';

/** Berth's default when `DOCKER_HOST` is not set. */
export const usualAddress = 'unix:///var/run/docker.sock';

/**
 * @typedef {'answers' | 'absent' | 'denied' | 'silent'} Health absent: no engine; denied: refused
 *   to this user; silent: an engine that refuses, breaks off or lets us wait
 * @typedef {{ address: string, health: Health, why: string }} Pinged
 */

/**
 * The addresses to try, the first that answers is taken. A `DOCKER_HOST` is an answer of the
 * operator: then no other is tried.
 * @param {{ env: NodeJS.ProcessEnv, uid: number | undefined }} given
 */
export function engineAddresses({ env, uid }) {
  const named = env['DOCKER_HOST'];
  if (named !== undefined && named !== '') return [named];
  const addresses = [usualAddress, 'unix:///run/podman/podman.sock'];
  const runtimeFolder = env['XDG_RUNTIME_DIR'] ?? (uid === undefined ? undefined : `/run/user/${uid}`);
  if (runtimeFolder !== undefined && uid !== 0) {
    addresses.push(`unix://${runtimeFolder}/docker.sock`, `unix://${runtimeFolder}/podman/podman.sock`);
  }
  return addresses;
}

/**
 * @param {{ env: NodeJS.ProcessEnv, uid?: number | undefined, deadlineMs?: number }} given
 * @returns {Promise<{ found?: string, tried: Pinged[] }>}
 */
export async function findEngine({ env, uid = process.getuid?.(), deadlineMs = 3_000 }) {
  const tried = [];
  for (const address of engineAddresses({ env, uid })) {
    const pinged = await ping({ address, env, deadlineMs });
    tried.push(pinged);
    if (pinged.health === 'answers') return { found: address, tried };
  }
  return { tried };
}

/**
 * Asks the engine at an address whether it is there. Never throws.
 * @param {{ address: string, env: NodeJS.ProcessEnv, deadlineMs: number }} given
 * @returns {Promise<Pinged>}
 */
export function ping({ address, env, deadlineMs }) {
  return new Promise((resolve) => {
    /**
     * @param {Health} health
     * @param {string} why
     */
    const answer = (health, why) => resolve({ address, health, why });
    let request;
    try {
      const target = requestTo(address, env);
      // Only the server opens ssh connections, and reports their errors.
      if (target === undefined) return answer('answers', 'not checked: ssh addresses are not supported by the check');
      request = target.secure ? https.request(target.options) : http.request(target.options);
    } catch (error) {
      return answer('silent', messageOf(error));
    }
    const deadline = setTimeout(() => request.destroy(new Error(`no answer within ${deadlineMs} ms`)), deadlineMs);
    request.on('response', (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (/** @type {string} */ text) => (body += text.slice(0, 200)));
      response.on('error', () => undefined);
      response.on('close', () => {
        clearTimeout(deadline);
        if (response.complete && response.statusCode === 200 && body.trim() === 'OK') answer('answers', 'OK');
        else answer('silent', `answered /_ping with ${response.statusCode ?? 'nothing'}: ${body.trim()}`);
      });
    });
    request.on('error', (error) => {
      clearTimeout(deadline);
      const code = 'code' in error ? error.code : undefined;
      if (code === 'ENOENT') answer('absent', 'the socket does not exist');
      else if (code === 'EACCES' || code === 'EPERM') answer('denied', 'this user may not access the socket');
      else if (code === 'ECONNREFUSED') answer('silent', 'nothing listens');
      else answer('silent', messageOf(error));
    });
    request.end();
  });
}

/**
 * @param {string} address
 * @param {NodeJS.ProcessEnv} env
 * @returns {{ secure: boolean, options: https.RequestOptions } | undefined} undefined for ssh
 */
function requestTo(address, env) {
  const common = { path: '/_ping', method: 'GET', agent: false };
  if (address.startsWith('unix://'))
    return { secure: false, options: { ...common, socketPath: address.slice('unix://'.length) } };
  if (address.startsWith('/')) return { secure: false, options: { ...common, socketPath: address } };
  const { protocol, hostname, port } = new URL(address);
  if (protocol === 'ssh:') return undefined;
  if (!['tcp:', 'http:', 'https:'].includes(protocol)) {
    throw new Error(
      `${protocol.slice(0, -1)} is not supported for an engine: use unix://, tcp://, http://, https:// or ssh://`,
    );
  }
  const secure = protocol === 'https:' || (protocol === 'tcp:' && (env['DOCKER_TLS_VERIFY'] ?? '') !== '');
  const options = { ...common, hostname, port: port === '' ? (secure ? 2376 : 2375) : Number(port) };
  const certificates = env['DOCKER_CERT_PATH'];
  if (!secure || certificates === undefined) return { secure, options };
  const read = (/** @type {string} */ name) => readFileSync(path.join(certificates, name));
  return { secure, options: { ...options, ca: read('ca.pem'), cert: read('cert.pem'), key: read('key.pem') } };
}

/** @param {unknown} error */
function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}
