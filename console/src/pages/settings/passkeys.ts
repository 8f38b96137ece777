/** Passkeys of this browser, at a host name over TLS or at localhost. */
import { browserSupportsWebAuthn, startRegistration } from '@simplewebauthn/browser';
import type { AnswerOf, InputOf } from '../../../../src/contract/routes.ts';

/** COSE algorithms that the server reads: EdDSA, ES256, RS256. */
const ALGORITHMS = [-8, -7, -257];
const ADDRESS = /^[\d.]+$|:/;

export const arePasskeysPossible = (): boolean =>
  window.isSecureContext && browserSupportsWebAuthn() && !ADDRESS.test(window.location.hostname);

export async function makePasskey(begun: AnswerOf<'beginPasskey'>): Promise<InputOf<'createPasskey'>['credential']> {
  const { challenge, rpId, userHandle, username, excludeIds } = begun;
  const { id, response } = await startRegistration({
    optionsJSON: {
      challenge,
      rp: { id: rpId, name: `Berth ${rpId}` },
      user: { id: userHandle, name: username, displayName: username },
      pubKeyCredParams: ALGORITHMS.map((alg) => ({ alg, type: 'public-key' })),
      excludeCredentials: excludeIds.map((known) => ({ id: known, type: 'public-key' })),
      authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
      attestation: 'none',
    },
  });
  const { clientDataJSON, attestationObject, transports = [] } = response;
  return { id, clientDataJSON, attestationObject, transports };
}
