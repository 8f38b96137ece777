/** Second factors of accounts with a password. */
import { z } from 'zod';
import { secondFactors } from '../../domain/access/second-factor.ts';
import {
  answer,
  ASCII,
  empty,
  emptyAnswer,
  flag,
  id,
  integer,
  integerOrNull,
  label,
  oneOfText,
  plainText,
  request,
  secret,
  text,
  unixMs,
} from '../common.ts';
import { jsonRoute, openRoute, readRoute } from '../route.ts';

export const SECOND_FACTOR_HEADER = 'X-Berth-Second-Factor';

const MAX_CODE = 24;
export const factorCode = z
  .string()
  .max(MAX_CODE)
  .regex(new RegExp(ASCII), { error: 'must be a code of an authenticator app, or a recovery code' })
  .meta({ format: 'password', pattern: ASCII })
  .describe('Current code of the authenticator app, or a recovery code');

export const loginAnswer = answer('LoginAnswer', {
  accessToken: text('JWT for the cookie `AccessToken` or the header `Authorization`'),
  accessExpire: integer('Lifetime of the token in seconds'),
});

const proof = {
  password: secret(0, 1024).describe('Password of the account'),
  code: factorCode.optional(),
};
const proofRequest = request('SecondFactorProof', proof, 'The code is needed once the account has a second factor');

const secondFactorsAnswer = answer('SecondFactors', {
  factors: z.array(oneOfText(secondFactors, 'Kind of factor')).describe('Factors of the account'),
  recoveryCodes: integer('Recovery codes that were not used'),
  passkeys: z
    .array(
      answer('Passkey', {
        id: text('Passkey ID'),
        name: text('Name'),
        createdAtUnixMs: unixMs('Creation time'),
        lastUsedAtUnixMs: integerOrNull('Last login by it, Unix milliseconds; null: not used yet'),
      }),
    )
    .describe('Passkeys, oldest first'),
  isRequired: flag('Whether the role of the account needs a second factor'),
  mustSetUp: flag('Whether this login can do nothing else before it has one'),
});
const totpAnswer = answer('NewTotp', {
  secret: text('Secret in base32, to type; no later answer repeats it').meta({ format: 'password' }),
  uri: text('The secret as `otpauth://` URI, for a QR code'),
});
const recoveryCodesAnswer = answer('RecoveryCodes', {
  recoveryCodes: z
    .array(text('Recovery code'))
    .describe('Codes that are good once each; no later answer repeats them. Empty if the account keeps its own'),
});
const confirmRequest = request('ConfirmTotpRequest', { code: factorCode.describe('Current code of the app') });

const settingUp = true;

const bytes = (max: number, what: string) =>
  z
    .string()
    .max(max)
    .regex(new RegExp(ASCII), { error: 'must be base64url' })
    .meta({ pattern: ASCII })
    .describe(`${what}, base64url`);
const credentialId = bytes(1_400, 'Credential ID');
const clientDataJSON = bytes(4_096, 'Client data of the browser');
const MAX_TRANSPORTS = 10;

const challenge = text('Challenge, base64url, good once and for five minutes');
const rpId = text('Host name that the passkey is for');
const newPasskeyAnswer = answer('PasskeyCreation', {
  challenge,
  rpId,
  userHandle: text('User handle, base64url'),
  username: text('Name of the account'),
  excludeIds: z.array(z.string()).describe('Credential IDs of passkeys that the account has'),
});
const passkeyRequest = request('CreatePasskeyRequest', {
  name: label(100).describe('Display name'),
  credential: request('NewPasskey', {
    id: credentialId,
    clientDataJSON,
    attestationObject: bytes(16_384, 'Attestation object'),
    transports: z.array(plainText(32)).max(MAX_TRANSPORTS).default([]).describe('How browsers reach the authenticator'),
  }).describe('What the browser made'),
});
const passkeyIdRequest = request('DeletePasskeyRequest', { id: id.describe('Passkey ID'), ...proof });
const assertionRequest = request('PasskeyLoginRequest', {
  id: credentialId,
  clientDataJSON,
  authenticatorData: bytes(4_096, 'Authenticator data'),
  signature: bytes(4_096, 'Signature'),
});

export const passkeyLoginRoutes = {
  beginPasskeyLogin: openRoute('/user/login/passkey/begin', empty, answer('PasskeyLogin', { challenge, rpId }), {
    summary: 'Begin a login by a passkey, from a page of the console',
  }),
  loginWithPasskey: openRoute('/user/login/passkey', assertionRequest, loginAnswer, {
    setsCookie: true,
    summary: 'Log in by a passkey, without password; also sets the AccessToken cookie',
  }),
} as const;

export const secondFactorRoutes = {
  getSecondFactor: readRoute('/user/secondFactor/get', empty, secondFactorsAnswer, {
    settingUp,
    summary: "Return the caller's second factors",
  }),
  createTotp: jsonRoute('/user/secondFactor/totp/create', proofRequest, totpAnswer, {
    settingUp,
    summary: 'Make the secret of an authenticator app; it counts from its first right code',
  }),
  confirmTotp: jsonRoute('/user/secondFactor/totp/confirm', confirmRequest, recoveryCodesAnswer, {
    settingUp,
    summary: 'Confirm the authenticator app by a code, and end the other logins of the account',
  }),
  deleteTotp: jsonRoute('/user/secondFactor/totp/delete', proofRequest, emptyAnswer, {
    settingUp,
    summary: 'Remove the authenticator app, and end the other logins of the account',
  }),
  beginPasskey: jsonRoute('/user/secondFactor/passkey/begin', proofRequest, newPasskeyAnswer, {
    settingUp,
    summary: 'Begin to add a passkey, from a page of the console',
  }),
  createPasskey: jsonRoute('/user/secondFactor/passkey/create', passkeyRequest, recoveryCodesAnswer, {
    settingUp,
    summary: 'Add a passkey, and end the other logins of the account',
  }),
  deletePasskey: jsonRoute('/user/secondFactor/passkey/delete', passkeyIdRequest, emptyAnswer, {
    settingUp,
    summary: 'Remove a passkey, and end the other logins of the account',
  }),
  createRecoveryCodes: jsonRoute('/user/secondFactor/recoveryCodes/create', proofRequest, recoveryCodesAnswer, {
    settingUp,
    summary: 'Replace the recovery codes by ten new ones',
  }),
} as const;
