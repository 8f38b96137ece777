/** Glewlwyd of Debian with its plugin of OpenID Connect, as a process of its own. */
import { generateKeyPairSync } from 'node:crypto';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../../fixtures/free-port.ts';
import { ADMINS, emailOf, PASSWORD, startProgram, type LoginProviderProgram, type StartOptions } from './provider.ts';

const SHARE = '/usr/share/glewlwyd';
const TABLES = '/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3';
const SCOPES = ['openid', 'profile', 'email'];

const CONTINUE = 'text=Continue';
const LOGOUT = 'button.btn-danger >> text=Logout';

let keys = 0;
function newKeys(): string {
  const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
  return JSON.stringify({ keys: [{ ...key, alg: 'RS256', use: 'sig', kid: `key-${(keys += 1)}` }] });
}

const configuration = (folder: string, port: number): string => `
port=${port}
bind_address="127.0.0.1"
external_url="http://127.0.0.1:${port}"
static_files_path="${folder}/webapp/"
cookie_secure=0
cookie_same_site="empty"
session_key="session"
log_mode="console"
log_level="INFO"
admin_scope="g_admin"
profile_scope="g_profile"
user_module_path="/usr/lib/glewlwyd/user"
client_module_path="/usr/lib/glewlwyd/client"
user_auth_scheme_module_path="/usr/lib/glewlwyd/scheme"
plugin_module_path="/usr/lib/glewlwyd/plugin"
hash_algorithm="SHA512"
database={ type="sqlite3" path="${folder}/data.db" };
static_files_mime_types=(
  { extension=".html" mime_type="text/html" },
  { extension=".css" mime_type="text/css" },
  { extension=".js" mime_type="application/javascript" },
  { extension=".json" mime_type="application/json" }
)
`;

const claims = (sendsGroups: boolean) => [
  { name: 'preferred_username', 'user-property': 'username', type: 'string', mandatory: true },
  {
    name: 'email_verified',
    'user-property': 'verified',
    type: 'boolean',
    'boolean-value-true': 'yes',
    'boolean-value-false': 'no',
    mandatory: true,
  },
  ...(sendsGroups ? [{ name: 'groups', 'user-property': 'groups', type: 'string', mandatory: true }] : []),
];

export async function startGlewlwyd(options: StartOptions): Promise<LoginProviderProgram> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-glewlwyd-'));
  const port = await freePort();
  const api = `http://127.0.0.1:${port}/api`;
  await cp(`${SHARE}/webapp`, join(folder, 'webapp'), {
    recursive: true,
    dereference: true,
    filter: (file) => !file.endsWith('/config.json'),
  });
  await cp(`${SHARE}/templates/config.json`, join(folder, 'webapp/config.json'));
  const database = new DatabaseSync(join(folder, 'data.db'));
  database.exec(await readFile(TABLES, 'utf8'));
  database.close();
  await writeFile(join(folder, 'glewlwyd.conf'), configuration(folder, port));
  const args = ['-c', 'glewlwyd.conf'];
  const program = await startProgram('glewlwyd', args, { cwd: folder, greeting: 'Glewlwyd started on' });
  const stop = async (): Promise<void> => {
    await program.stop();
    await rm(folder, { recursive: true });
  };

  const call = async (method: string, path: string, body?: object, cookie = ''): Promise<Response> => {
    const response = await fetch(api + path, {
      method,
      headers: { cookie, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response;
  };
  const cookieOf = async (username: string, password: string): Promise<string> =>
    (await call('POST', '/auth/', { username, password })).headers.getSetCookie()[0]?.split(';')[0] ?? '';

  let host = '127.0.0.1';
  let sendsGroups = true;
  let jwks = newKeys();
  const issuer = (): string => `http://${host}:${port}/api/oidc`;
  const plugin = () => ({
    module: 'oidc',
    name: 'oidc',
    display_name: 'OpenID Connect',
    order_rank: 0,
    enabled: true,
    parameters: {
      iss: issuer(),
      'jwks-private': jwks,
      'jwks-show': true,
      'jwt-type': 'rsa',
      'jwt-key-size': '256',
      'access-token-duration': 600,
      'refresh-token-duration': 600,
      'code-duration': 600,
      'auth-type-code-enabled': true,
      'session-management-allowed': true,
      'session-cookie-name': 'oidc-session',
      'session-cookie-expiration': 3600,
      'back-channel-logout-allowed': true,
      'front-channel-logout-allowed': true,
      'pkce-allowed': true,
      'email-claim': 'mandatory',
      claims: claims(sendsGroups),
    },
  });

  try {
    const admin = await cookieOf('admin', 'password');
    await setUp((method, path, body) => call(method, path, body, admin), options, plugin());
    for (const { name } of options.people) {
      const cookie = await cookieOf(name, PASSWORD);
      await call('PUT', '/auth/grant/berth', { scope: SCOPES.join(' ') }, cookie);
    }
  } catch (error) {
    await stop();
    throw error;
  }

  const change = async (): Promise<void> => {
    const admin = await cookieOf('admin', 'password');
    await call('PUT', '/mod/plugin/oidc', plugin(), admin);
    await call('PUT', '/mod/plugin/oidc/reset/', undefined, admin);
  };
  return {
    get issuer() {
      return issuer();
    },
    stop,
    async fillIn(page, name) {
      // Once it knows who is logged in, the page writes that name into the form.
      await page.waitForLoadState('networkidle');
      await page.fill('#username', name);
      await page.fill('#password', PASSWORD);
      await page.click('#loginbut');
      await page.click(CONTINUE);
    },
    goOn: (page) => page.click(CONTINUE),
    staysAtLogout: true,
    async confirmLogout(page) {
      await page.click(LOGOUT);
      await page.waitForSelector('text=Session closed');
    },
    async leaveGroupsOut() {
      sendsGroups = false;
      await change();
    },
    async endLogin(page) {
      const cookies = await page.context().cookies();
      const hint = cookies.find(({ name }) => name === 'berth_oidc_hint')?.value ?? '';
      await page.goto(`${issuer()}/end_session?id_token_hint=${hint}`);
      await page.click(LOGOUT);
    },
    async changeKey() {
      jwks = newKeys();
      await change();
    },
    async move() {
      host = 'localhost';
      await change();
    },
  };
}

async function setUp(
  admin: (method: string, path: string, body?: object) => Promise<unknown>,
  { people, secret, redirectUri, backchannelUri }: StartOptions,
  plugin: object,
): Promise<void> {
  const text = { multiple: false, read: true, write: true };
  const list = { ...text, multiple: true };
  const formats = {
    user: { verified: text, groups: list },
    client: {
      redirect_uri: list,
      authorization_type: list,
      token_endpoint_auth_method: list,
      post_logout_redirect_uris: list,
      backchannel_logout_uri: text,
    },
  };
  for (const [kind, format] of Object.entries(formats)) {
    const parameters = { 'use-glewlwyd-connection': true, 'data-format': format };
    const module = { module: 'database', name: 'database', display_name: kind, order_rank: 0, parameters };
    await admin('PUT', `/mod/${kind}/database`, module);
    await admin('PUT', `/mod/${kind}/database/reset/`);
  }
  for (const name of SCOPES.slice(1)) await admin('POST', '/scope/', { name, display_name: name, description: name });
  await admin('POST', '/mod/plugin/', plugin);
  await admin('POST', '/client/', {
    client_id: 'berth',
    name: 'Berth',
    enabled: true,
    confidential: true,
    password: secret,
    redirect_uri: [redirectUri],
    authorization_type: ['code'],
    token_endpoint_auth_method: ['client_secret_basic'],
    post_logout_redirect_uris: [redirectUri],
    backchannel_logout_uri: backchannelUri,
    scope: [],
  });
  for (const { name, isVerified = true, isAdmin = false } of people)
    await admin('POST', '/user/', {
      username: name,
      password: PASSWORD,
      email: emailOf(name),
      enabled: true,
      scope: SCOPES,
      verified: isVerified ? 'yes' : 'no',
      groups: isAdmin ? [ADMINS] : [],
    });
}
