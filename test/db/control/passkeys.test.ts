/** Logins by a passkey of an authenticator without a counter, made by hand from WebAuthn's text. */
import { createHash, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { expect, test } from 'vitest';
import { insertPasskey } from '../../../src/store/tables/second-factors.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import {
  HOME,
  MINUTE,
  accessFixtureOver,
  annaOf,
  callerOf,
  eventKinds,
  expectRefused,
  openFixture,
  setDisabled,
  type AccessFixture,
} from './access-fixture.ts';

const SITE = { rpId: 'berth.test', origin: 'https://berth.test' };
const USER_PRESENT = 1;
const USER_VERIFIED = 4;

const sha256 = (bytes: string | Buffer): Buffer => createHash('sha256').update(bytes).digest();

/** COSE_Key of ES256. */
function coseKey(publicKey: KeyObject): string {
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
  const coordinates = [x, y].map((text) => Buffer.from(text, 'base64url'));
  const [first = Buffer.alloc(0), second = Buffer.alloc(0)] = coordinates;
  return Buffer.concat([
    Buffer.from('a5010203262001215820', 'hex'),
    first,
    Buffer.from('225820', 'hex'),
    second,
  ]).toString('base64url');
}

interface Assertion {
  challenge: string;
  flags?: number;
  origin?: string;
  rpId?: string;
  type?: string;
}

/** A passkey of anna. */
async function withPasskey(fixture: AccessFixture) {
  const { caller } = await annaOf(fixture);
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const id = Buffer.from('a credential').toString('base64url');
  const row = { id: 'p', accountId: caller.accountId, name: 'p', credentialId: id, publicKey: coseKey(publicKey) };
  const rest = { counter: 0, transports: '[]', createdAtMs: 1, lastUsedAtMs: null };
  await fixture.store.write((tx) => insertPasskey(tx, { ...row, ...rest }));
  const assertion = ({
    challenge,
    flags = USER_PRESENT | USER_VERIFIED,
    origin = SITE.origin,
    rpId = SITE.rpId,
    type = 'webauthn.get',
  }: Assertion) => {
    const clientData = Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }));
    const authenticatorData = Buffer.concat([sha256(rpId), Buffer.from([flags]), Buffer.alloc(4)]);
    const signature = sign('sha256', Buffer.concat([authenticatorData, sha256(clientData)]), privateKey);
    return {
      id,
      clientDataJSON: clientData.toString('base64url'),
      authenticatorData: authenticatorData.toString('base64url'),
      signature: signature.toString('base64url'),
    };
  };
  const { passkeys } = fixture.access;
  return {
    caller,
    assertion,
    challenge: () => passkeys.beginLogin(SITE).challenge,
    logIn: (given: ReturnType<typeof assertion>) => passkeys.login(given, SITE, HOME),
  };
}

onBothEngines('a passkey', (open) => {
  test('logs in once for each challenge, also without a counter', async () => {
    const fixture = await openFixture(open);
    const { caller, assertion, challenge, logIn } = await withPasskey(fixture);
    const given = assertion({ challenge: challenge() });
    const { accessToken } = await logIn(given);
    expect((await callerOf(fixture, accessToken)).accountId).toBe(caller.accountId);
    await expectRefused(logIn(given), 'not_logged_in');
    const raced = assertion({ challenge: challenge() });
    const outcomes = await Promise.allSettled([logIn(raced), logIn(raced), logIn(raced)]);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(await eventKinds(fixture.store, caller.accountId)).toContain('account.loggedIn');
  });

  test('is refused with another challenge, origin, host, kind or signature, and without its person', async () => {
    const fixture = await openFixture(open);
    const { assertion, challenge, logIn, caller } = await withPasskey(fixture);
    const own = Buffer.from('mine').toString('base64url');
    const wrong = [
      assertion({ challenge: own }),
      assertion({ challenge: challenge(), origin: 'https://8000-x.berth.test' }),
      assertion({ challenge: challenge(), rpId: 'other.test' }),
      assertion({ challenge: challenge(), type: 'webauthn.create' }),
      assertion({ challenge: challenge(), flags: USER_PRESENT }),
      { ...assertion({ challenge: challenge() }), signature: assertion({ challenge: challenge() }).signature },
      { ...assertion({ challenge: challenge() }), id: 'unknown' },
      { ...assertion({ challenge: challenge() }), clientDataJSON: 'bm8' },
    ];
    for (const given of wrong) await expectRefused(logIn(given), 'not_logged_in', /opens no account/);
    // That of a passkey to add opens no login.
    const begun = await fixture.access.passkeys.begin(caller, { password: "anna's password" }, SITE);
    await expectRefused(logIn(assertion({ challenge: begun.challenge })), 'not_logged_in');
    await logIn(assertion({ challenge: challenge() }));
  });

  test('is refused five minutes after its challenge, in another process, and for a disabled account', async () => {
    const fixture = await openFixture(open);
    const { assertion, challenge, logIn } = await withPasskey(fixture);
    const late = assertion({ challenge: challenge() });
    fixture.clock.nowMs += 5 * MINUTE;
    await expectRefused(logIn(late), 'not_logged_in');
    const elsewhere = accessFixtureOver(fixture.store, fixture.clock);
    const other = assertion({ challenge: elsewhere.access.passkeys.beginLogin(SITE).challenge });
    await expectRefused(logIn(other), 'not_logged_in');
    const given = assertion({ challenge: challenge() });
    await setDisabled(fixture.store, 'anna', 1);
    await expectRefused(logIn(given), 'forbidden', /disabled/);
  });
});
