/** The library `oidc-provider` with the pages that it brings for development. */
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';
import { freePort } from '../../../fixtures/free-port.ts';
import { grantOf } from '../../../fixtures/login-provider.ts';
import { ADMINS, emailOf, PASSWORD, type LoginProviderProgram, type StartOptions } from './provider.ts';

/** The dispatcher of the library refuses addresses of this machine. */
const ANY_ADDRESS = { dispatcher: undefined };

let keys = 0;
function newKey() {
  const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
  return { ...key, kty: 'RSA' as const, alg: 'RS256', use: 'sig', kid: `key-${(keys += 1)}` };
}

export async function startOidcProvider(options: StartOptions): Promise<LoginProviderProgram> {
  const { people, secret, redirectUri, backchannelUri } = options;
  const port = await freePort();
  let host = '127.0.0.1';
  let key = newKey();
  let sendsGroups = true;
  const issuer = (): string => `http://${host}:${port}`;
  const claimsOf = (sub: string) => {
    const { isVerified = true, isAdmin = false } = people.find(({ name }) => name === sub) ?? {};
    const groups = sendsGroups ? { groups: isAdmin ? [ADMINS] : [] } : {};
    return { sub, preferred_username: sub, email: emailOf(sub), email_verified: isVerified, ...groups };
  };
  const make = (): Provider => {
    const provider: Provider = new Provider(issuer(), {
      clients: [
        {
          client_id: 'berth',
          client_secret: secret,
          redirect_uris: [redirectUri],
          post_logout_redirect_uris: [redirectUri],
          backchannel_logout_uri: backchannelUri,
          backchannel_logout_session_required: true,
        },
      ],
      claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['preferred_username', 'groups'] },
      cookies: { keys: ['a key for tests'] },
      features: { backchannelLogout: { enabled: true } },
      fetch: (url, init) => fetch(url, { ...init, ...ANY_ADDRESS }),
      jwks: { keys: [key] },
      findAccount: (_, sub) => ({ accountId: sub, claims: async () => claimsOf(sub) }),
      loadExistingGrant: (context) => grantOf(provider, context),
    });
    return provider;
  };
  let answer = make().callback();
  const server = createServer((req, res) => void answer(req, res)).listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    get issuer() {
      return issuer();
    },
    async fillIn(page, name) {
      await page.fill('[name=login]', name);
      await page.fill('[name=password]', PASSWORD);
      await page.click('[type=submit]');
    },
    confirmLogout: (page) => page.click('[name=logout]'),
    async leaveGroupsOut() {
      sendsGroups = false;
    },
    async endLogin(page) {
      await page.goto(`${issuer()}/session/end`);
      await page.click('[name=logout]');
    },
    async changeKey() {
      key = newKey();
      answer = make().callback();
    },
    async move() {
      host = 'localhost';
      answer = make().callback();
    },
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
