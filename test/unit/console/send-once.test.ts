/** An act is sent once, however often its button is pressed. */
import { expect, test } from 'vitest';
import { makeSendOnce } from '../../../console/src/app/send-once.ts';

function makeScene() {
  const sent: { url: string; key: string | null; answer: PromiseWithResolvers<Response> }[] = [];
  const clock = { ms: 0 };
  const once = makeSendOnce(
    (url, { headers }) => {
      const answer = Promise.withResolvers<Response>();
      sent.push({ url, key: new Headers(headers).get('idempotency-key'), answer });
      return answer.promise;
    },
    () => clock.ms,
  );
  let made = 0;
  const act = (url: string, body = '{}') =>
    once(url, { method: 'POST', body, headers: { 'idempotency-key': `key-${(made += 1)}` } });
  const answered = async (nth: number, status: number, text = ''): Promise<void> => {
    sent[nth]?.answer.resolve(new Response(text, { status }));
    await new Promise(setImmediate);
  };
  return { sent, clock, once, act, answered };
}

test('two presses of a button are one request, and both have its answer', async () => {
  const { sent, clock, act, answered } = makeScene();
  const both = [act('/create'), act('/create')];
  await answered(0, 200, 'made');
  expect(await Promise.all(both.map(async (one) => (await one).text()))).toEqual(['made', 'made']);
  clock.ms = 599;
  expect(await (await act('/create')).text()).toBe('made');
  expect(sent).toHaveLength(1);
  clock.ms = 600;
  void act('/create');
  expect(sent.map(({ key }) => key)).toEqual(['key-1', 'key-4']);
});

test('another body, and the same one after another act, are new requests', async () => {
  const { sent, act, answered } = makeScene();
  for (const [nth, body] of ['{"on":true}', '{"on":false}', '{"on":true}'].entries()) {
    void act('/update', body);
    await answered(nth, 200);
  }
  expect(new Set(sent.map(({ key }) => key)).size).toBe(3);
});

test('after a lost answer the same act has the same key, unless another came between', async () => {
  const { sent, act, answered } = makeScene();
  const lost = act('/create');
  sent[0]?.answer.reject(new TypeError('network'));
  await expect(lost).rejects.toThrow('network');
  void act('/create');
  await answered(1, 502);
  void act('/create');
  await answered(2, 200);
  expect(sent.map(({ key }) => key)).toEqual(['key-1', 'key-1', 'key-1']);
  const stopLost = act('/stop');
  sent[3]?.answer.reject(new TypeError('network'));
  await expect(stopLost).rejects.toThrow('network');
  void act('/start');
  void act('/stop');
  expect(sent.slice(3).map(({ key }) => key)).toEqual(['key-4', 'key-5', 'key-6']);
});

test('a refused act is tried again, and a question is always asked', async () => {
  const { sent, once, act, answered } = makeScene();
  void act('/create');
  await answered(0, 409);
  void act('/create');
  expect(sent.map(({ key }) => key)).toEqual(['key-1', 'key-2']);
  void once('/list', { method: 'POST', body: '{}' });
  void once('/list', { method: 'POST', body: '{}' });
  expect(sent).toHaveLength(4);
});
