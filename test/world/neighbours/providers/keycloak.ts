/** Keycloak as it is delivered, with its data in a folder of its own. */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensureKeycloak } from '../../../../scripts/lib/keycloak.mjs';
import { freePort } from '../../../fixtures/free-port.ts';
import { ADMINS, emailOf, PASSWORD, startProgram, type LoginProviderProgram, type StartOptions } from './provider.ts';

const ADMIN = 'admin';
const REALM = '/company';

export async function startKeycloak(options: StartOptions): Promise<LoginProviderProgram> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-keycloak-'));
  await cp(await ensureKeycloak(), folder, { recursive: true });
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const env = {
    JAVA_OPTS_APPEND: '-Xmx600m',
    KC_BOOTSTRAP_ADMIN_USERNAME: ADMIN,
    KC_BOOTSTRAP_ADMIN_PASSWORD: ADMIN,
  };
  const args = ['start-dev', `--http-port=${port}`, '--http-host=127.0.0.1'];
  const program = await startProgram(join(folder, 'bin/kc.sh'), args, { cwd: folder, env, greeting: 'Listening on:' });
  const stop = async (): Promise<void> => {
    await program.stop();
    await rm(folder, { recursive: true, force: true });
  };

  const token = async (): Promise<string> => {
    const form = { grant_type: 'password', client_id: 'admin-cli', username: ADMIN, password: ADMIN };
    const response = await fetch(`${origin}/realms/master/protocol/openid-connect/token`, {
      method: 'POST',
      body: new URLSearchParams(form),
    });
    const answer: { access_token: string } = JSON.parse(await response.text());
    return answer.access_token;
  };
  /** Calls the administration of Keycloak; answers the JSON, or null. */
  const admin = async (method: string, path: string, body?: unknown): Promise<unknown> => {
    const response = await fetch(`${origin}/admin/realms${path}`, {
      method,
      headers: { authorization: `Bearer ${await token()}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === '' ? null : JSON.parse(text);
  };
  const idOf = async (path: string): Promise<string> => {
    const [found] = (await admin('GET', path)) as { id: string }[];
    return found?.id ?? '';
  };
  const pathOf = async (name: string): Promise<string> =>
    `${REALM}/users/${await idOf(`${REALM}/users?username=${name}&exact=true`)}`;

  try {
    await setUp(admin, options);
  } catch (error) {
    await stop();
    throw error;
  }

  let host = '127.0.0.1';
  return {
    get issuer() {
      return `http://${host}:${port}/realms${REALM}`;
    },
    goesOnInTabs: true,
    stop,
    async fillIn(page, name) {
      // Keycloak asks for the password of who is logged in, and offers another account.
      if (await page.isVisible('#reset-login')) await page.click('#reset-login');
      await page.fill('#username', name);
      await page.fill('#password', PASSWORD);
      await page.click('#kc-login');
    },
    async leaveGroupsOut() {
      const client = await idOf(`${REALM}/clients?clientId=berth`);
      const mappers = `${REALM}/clients/${client}/protocol-mappers/models`;
      await admin('DELETE', `${mappers}/${await idOf(mappers)}`);
    },
    endLogin: async (_, name) => void (await admin('POST', `${await pathOf(name)}/logout`)),
    async changeKey() {
      const { id } = (await admin('GET', REALM)) as { id: string };
      await admin('POST', `${REALM}/components`, {
        name: 'a newer key',
        providerId: 'rsa-generated',
        providerType: 'org.keycloak.keys.KeyProvider',
        parentId: id,
        config: { priority: ['200'], algorithm: ['RS256'], keySize: ['2048'] },
      });
    },
    async move() {
      // Keycloak takes its name from the request.
      host = 'localhost';
    },
  };
}

async function setUp(
  admin: (method: string, path: string, body?: unknown) => Promise<unknown>,
  { people, secret, redirectUri, backchannelUri }: StartOptions,
): Promise<void> {
  await admin('POST', '', { realm: REALM.slice(1), enabled: true, sslRequired: 'none' });
  await admin('POST', `${REALM}/groups`, { name: ADMINS });
  await admin('POST', `${REALM}/clients`, {
    clientId: 'berth',
    secret,
    publicClient: false,
    standardFlowEnabled: true,
    redirectUris: [redirectUri],
    attributes: { 'backchannel.logout.url': backchannelUri },
    protocolMappers: [
      {
        name: 'groups',
        protocol: 'openid-connect',
        protocolMapper: 'oidc-group-membership-mapper',
        config: { 'claim.name': 'groups', 'full.path': 'true', 'id.token.claim': 'true' },
      },
    ],
  });
  for (const { name, isVerified = true, isAdmin = false } of people)
    await admin('POST', `${REALM}/users`, {
      username: name,
      enabled: true,
      email: emailOf(name),
      emailVerified: isVerified,
      firstName: 'A',
      lastName: 'B',
      credentials: [{ type: 'password', value: PASSWORD, temporary: false }],
      groups: isAdmin ? [`/${ADMINS}`] : [],
    });
}
