/** Dex with people of its configuration, and sessions. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../../fixtures/free-port.ts';
import { ADMINS, emailOf, PASSWORD, startProgram, type LoginProviderProgram, type StartOptions } from './provider.ts';

/** Hash by bcrypt of `PASSWORD`. */
const HASH = '$2a$10$BerthTestsBerthTestsBew1YUQ1vnQv5bQAtjVjuYB/K2nRjsJ0i';

export async function startDex(program: string, options: StartOptions): Promise<LoginProviderProgram> {
  const { people, secret, redirectUri, backchannelUri } = options;
  const folder = await mkdtemp(join(tmpdir(), 'berth-dex-'));
  const port = await freePort();
  let host = '127.0.0.1';
  let sendsGroups = true;
  const issuer = (): string => `http://${host}:${port}/dex`;
  const start = async () => {
    const settings = {
      issuer: issuer(),
      storage: { type: 'memory' },
      web: { http: `127.0.0.1:${port}` },
      oauth2: { skipApprovalScreen: true },
      sessions: { rememberMeCheckedByDefault: true },
      enablePasswordDB: true,
      staticClients: [
        {
          id: 'berth',
          name: 'Berth',
          secret,
          redirectURIs: [redirectUri],
          postLogoutRedirectURIs: [redirectUri],
          backchannelLogoutURI: backchannelUri,
        },
      ],
      staticPasswords: people.map(({ name, isVerified = true, isAdmin = false }) => ({
        email: emailOf(name),
        hash: HASH,
        username: name,
        preferredUsername: name,
        emailVerified: isVerified,
        userID: `id-of-${name}`,
        groups: isAdmin && sendsGroups ? [ADMINS] : [],
      })),
    };
    await writeFile(join(folder, 'dex.json'), JSON.stringify(settings));
    const env = { DEX_SESSIONS_ENABLED: 'true' };
    return startProgram(program, ['serve', 'dex.json'], { cwd: folder, env, greeting: 'listening on' });
  };
  let running = await start();
  /** A restart forgets keys and sessions, which are in memory. */
  const restart = async (): Promise<void> => {
    await running.stop();
    running = await start();
  };
  return {
    get issuer() {
      return issuer();
    },
    settings: { BERTH_OIDC_SCOPES: 'openid profile email groups' },
    async fillIn(page, name) {
      await page.fill('#login', emailOf(name));
      await page.fill('#password', PASSWORD);
      await page.click('#submit-login');
    },
    async leaveGroupsOut() {
      sendsGroups = false;
      await restart();
    },
    async endLogin(page) {
      await page.goto(`${issuer()}/logout`);
      await page.click('button[type=submit]');
    },
    changeKey: restart,
    async move() {
      host = 'localhost';
      await restart();
    },
    async stop() {
      await running.stop();
      await rm(folder, { recursive: true });
    },
  };
}
