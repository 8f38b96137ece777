/** Second factors of accounts with a password. */
import { z } from 'zod';
import { secondFactors } from '../../domain/access/second-factor.ts';
import { answer, ASCII, empty, emptyAnswer, flag, integer, oneOfText, request, secret, text } from '../common.ts';
import { jsonRoute, readRoute } from '../route.ts';

export const SECOND_FACTOR_HEADER = 'X-Berth-Second-Factor';

const MAX_CODE = 24;
export const factorCode = z
  .string()
  .max(MAX_CODE)
  .regex(new RegExp(ASCII), { error: 'must be a code of an authenticator app, or a recovery code' })
  .meta({ format: 'password', pattern: ASCII })
  .describe('Current code of the authenticator app, or a recovery code');

const proof = {
  password: secret(0, 1024).describe('Password of the account'),
  code: factorCode.optional(),
};
const proofRequest = request('SecondFactorProof', proof, 'The code is needed once the account has a second factor');

const secondFactorsAnswer = answer('SecondFactors', {
  factors: z.array(oneOfText(secondFactors, 'Kind of factor')).describe('Factors of the account'),
  recoveryCodes: integer('Recovery codes that were not used'),
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
  createRecoveryCodes: jsonRoute('/user/secondFactor/recoveryCodes/create', proofRequest, recoveryCodesAnswer, {
    settingUp,
    summary: 'Replace the recovery codes by ten new ones',
  }),
} as const;
