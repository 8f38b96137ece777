/** The page of open registration, and its route. */
import { expect, onTestFinished, test } from 'vitest';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';
import { fakeControl } from './fake-control.ts';
import { startEdge } from './harness.ts';

const FORM = 'application/x-www-form-urlencoded';

async function start(isOpen: boolean) {
  const registered: unknown[] = [];
  const register = async (body: { username: string; password: string }, from: string) => {
    if (!isOpen) throw new Refusal('forbidden', 'registration is off on this installation');
    if (body.username === 'taken') throw new Refusal('name_taken', 'The username "taken" is taken; choose another.');
    registered.push({ ...body, from });
    return { userId: '1', username: body.username, email: '', group: ['user'] };
  };
  const edge = await startEdge(fakeControl({ accounts: { register, registers: () => isOpen } }));
  onTestFinished(() => edge.stop());
  const submit = (fields: Record<string, string>, headers: Record<string, string> = {}) =>
    edge.send('/register', {
      method: 'POST',
      body: new URLSearchParams(fields).toString(),
      headers: { 'content-type': FORM, origin: edge.origin, ...headers },
    });
  return { edge, registered, submit };
}

const PASSWORD = 'seven green bottles';
const fields = (username: string) => ({ username, password: PASSWORD, repeated: PASSWORD });

test('a person makes an account on the page, and a program by the route', async () => {
  const { edge, registered, submit } = await start(true);
  const shown = await edge.send('/register');
  expect(shown).toMatchObject({ status: 200 });
  expect(shown.text).toContain('autocomplete="new-password"');
  const made = await submit(fields('nora'));
  expect(made).toMatchObject({ status: 200, text: expect.stringContaining('The account nora is made.') });
  const body = { username: 'olga', password: PASSWORD };
  expect(await edge.post('/user/register', body)).toMatchObject({ status: 200, json: { username: 'olga' } });
  const from = '127.0.0.1';
  expect(registered).toEqual([
    { username: 'nora', password: PASSWORD, from },
    { ...body, from },
  ]);
});

test('says what is wrong, and takes no form of another origin', async () => {
  const { registered, submit } = await start(true);
  const refused = await submit(fields('taken'));
  expect(refused).toMatchObject({ status: 409, text: expect.stringContaining('value="taken"') });
  expect((await submit(fields('<b>'))).text).toContain('The name must be 1 to 63 lower-case letters');
  expect((await submit({ ...fields('nora'), repeated: 'x' })).text).toContain('passwords differ');
  expect(await submit(fields('nora'), { origin: 'https://evil.test' })).toMatchObject({ status: 403 });
  expect(await submit(fields('nora'), { origin: 'null' })).toMatchObject({ status: 403 });
  expect(registered).toEqual([]);
});

test('refuses everybody while registration is off', async () => {
  const { edge, submit } = await start(false);
  expect(await edge.send('/register')).toMatchObject({ status: 403, text: expect.stringContaining('administrator') });
  expect(await submit(fields('nora'))).toMatchObject({ status: 403 });
  const body = { username: 'nora', password: PASSWORD };
  expect(await edge.post('/user/register', body)).toMatchObject({ status: 403 });
});
