import type { FastifyRequest } from 'fastify';
import type { Access, Caller } from '../../../control/index.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { presentedCredential } from '../credentials.ts';

/** Null without a login by cookie. */
export async function visitorOf(request: FastifyRequest, access: Pick<Access, 'authenticate'>): Promise<Caller | null> {
  try {
    const { credential, byCookie } = presentedCredential(request.headers);
    if (!byCookie) return null;
    return (request.caller = await access.authenticate(credential, { settingUp: true }));
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_logged_in') return null;
    throw error;
  }
}
