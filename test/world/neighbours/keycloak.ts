/** A Keycloak of the tests, with its data in a folder of its own, and its administration. */
import { spawn } from 'node:child_process';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensureKeycloak } from '../../../scripts/lib/keycloak.mjs';
import { bringsProgram } from '../../fixtures/programs.ts';
import { freePort } from '../../fixtures/free-port.ts';

const START_MS = 240_000;
const ADMIN = 'admin';

export interface Keycloak {
  origin: string;
  /** Calls the administration of the realm, or of another path; answers the JSON, or null. */
  admin(method: string, path: string, body?: unknown): Promise<unknown>;
  stop(): Promise<void>;
}

export async function startKeycloak(): Promise<Keycloak> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-keycloak-'));
  bringsProgram('unzip');
  await cp(await ensureKeycloak(), folder, { recursive: true });
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  let output = '';
  const child = spawn(join(folder, 'bin/kc.sh'), ['start-dev', `--http-port=${port}`, '--http-host=127.0.0.1'], {
    cwd: folder,
    detached: true,
    env: {
      ...process.env,
      JAVA_OPTS_APPEND: '-Xmx600m',
      KC_BOOTSTRAP_ADMIN_USERNAME: ADMIN,
      KC_BOOTSTRAP_ADMIN_PASSWORD: ADMIN,
    },
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  const stop = async (): Promise<void> => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
    await ended;
    await rm(folder, { recursive: true, force: true });
  };
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`Keycloak did not start:\n${output}`)), START_MS);
    const read = (bytes: Buffer): void => {
      output += bytes.toString();
      if (!output.includes('Listening on:')) return;
      clearTimeout(timer);
      resolve();
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.once('exit', () => reject(new Error(`Keycloak ended:\n${output}`)));
  }).catch(async (error: unknown) => {
    await stop();
    throw error;
  });

  const token = async (): Promise<string> => {
    const form = { grant_type: 'password', client_id: 'admin-cli', username: ADMIN, password: ADMIN };
    const response = await fetch(`${origin}/realms/master/protocol/openid-connect/token`, {
      method: 'POST',
      body: new URLSearchParams(form),
    });
    const answer: { access_token: string } = JSON.parse(await response.text());
    return answer.access_token;
  };
  return {
    origin,
    stop,
    async admin(method, path, body) {
      const response = await fetch(`${origin}/admin/realms${path}`, {
        method,
        headers: { authorization: `Bearer ${await token()}`, 'content-type': 'application/json' },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
      return text === '' ? null : JSON.parse(text);
    },
  };
}
