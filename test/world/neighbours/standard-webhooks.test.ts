/** The library of Standard Webhooks for Python verifies what Berth signs. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newWebhookSecret, signedHeaders } from '../../../src/control/delivery/webhooks/sign-webhook.ts';
import { findPython, openPython, type Python } from './python.ts';

let python: Python | undefined;
beforeAll(async () => {
  const found = await findPython('3');
  if (found !== null) python = await openPython(found, ['standardwebhooks==1.1.0']);
}, 900_000);
afterAll(() => python?.remove());

const PROGRAM = `
import json, sys
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

given = json.load(open(sys.argv[1]))
def verdict(body):
    try:
        return Webhook(given["secret"]).verify(body, given["headers"])["type"]
    except WebhookVerificationError:
        return "refused"
print(json.dumps([verdict(given["body"]), verdict(given["body"].replace("Müller", "Muller"))]))
`;

test('the library of PyPI verifies a webhook, and refuses an altered one', async ({ skip }) => {
  if (python === undefined) return skip('the library runs on Python 3, which is not installed');
  const secret = newWebhookSecret((size) => Buffer.alloc(size, 'berth'));
  const body = JSON.stringify({ type: 'billing.credited', data: { reason: 'für Müller ☃' } });
  const headers = signedHeaders(secret, { id: 'msg_1', atMs: Date.now(), body });
  const file = path.join(python.folder, 'given.json');
  await writeFile(file, JSON.stringify({ secret, body, headers }));
  await writeFile(path.join(python.folder, 'verify.py'), PROGRAM);
  const said = await python.run('python', [path.join(python.folder, 'verify.py'), file]);
  expect(JSON.parse(said)).toEqual(['billing.credited', 'refused']);
});
