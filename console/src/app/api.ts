/** The API of this origin, with the cookie of the login. */
import { makeClient } from '../../../src/contract/client.ts';

export const api = makeClient({ baseUrl: '/api', credential: { kind: 'cookie' } });
