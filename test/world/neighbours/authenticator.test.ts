/** pyotp reads the address of the QR code, as an authenticator app does, and its codes log in. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startApi } from '../../http/api/harness.ts';
import { findPython, openPython, type Python } from './python.ts';

let python: Python | undefined;
beforeAll(async () => {
  const found = await findPython('3');
  if (found !== null) python = await openPython(found, ['pyotp==2.10.0']);
}, 900_000);
afterAll(() => python?.remove());

/** Account that the app shows, and its codes of now and of the next half minute. */
const PROGRAM = `
import json, sys, time, pyotp

app = pyotp.parse_uri(sys.argv[1])
print(json.dumps([app.name, *(app.at(time.time() + later) for later in (0, 30))]))
`;

test('an account with the app of pyotp logs in by its codes', async ({ skip, onTestFinished }) => {
  if (python === undefined) return skip('pyotp runs on Python 3, which is not installed');
  const api = await startApi();
  onTestFinished(() => api.stop());
  const { client, username, password } = await api.newAccount();
  const { uri } = await client.createTotp({ password });
  const [name, now, next] = JSON.parse(await python.run('python', ['-c', PROGRAM, uri])) as string[];
  expect(name).toBe(username);
  await client.confirmTotp({ code: now ?? '' });
  const logIn = (code: string | undefined) => api.post('/user/login', { username, password, code });
  expect((await logIn(now)).status).toBe(401);
  expect((await logIn(next)).status).toBe(200);
});
