/** The API of this origin, with the cookie of the login. */
import { makeClient } from '../../../src/contract/client.ts';
import { base } from './base.ts';
import { makeSendOnce } from './send-once.ts';

const sendOnce = makeSendOnce((url, init) => fetch(url, init), Date.now);

export const api = makeClient({ baseUrl: `${base}/api`, credential: { kind: 'cookie' }, fetch: sendOnce });
