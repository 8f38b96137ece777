/** What is open for longer than a request is asked for anew: a login or key may end meanwhile. */
import type { FastifyRequest } from 'fastify';
import type { Access, Caller } from '../../control/control.ts';
import { Refusal } from '../../domain/refusal.ts';
import { presentedCredential } from './credentials.ts';

/** Why its caller may not go on; null while the credential stands. Throws when that can't be asked. */
export async function whyLoginEnded(
  access: Pick<Access, 'authenticate'>,
  { request, caller }: { request: Pick<FastifyRequest, 'headers'>; caller: Pick<Caller, 'accountId'> },
  { anew } = { anew: false },
): Promise<string | null> {
  try {
    const { credential } = presentedCredential(request.headers);
    const { accountId } = await access.authenticate(credential, { anew });
    return accountId === caller.accountId ? null : 'the login is another account now';
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_logged_in') return 'the login or key has ended: log in again';
    throw error;
  }
}
