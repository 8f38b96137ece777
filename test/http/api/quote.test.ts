/** Quotes over HTTP: members, refusals, and the header of a launch. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ids } from './control-fixture.ts';
import { launchRequest, startApi, type Account, type TestApi } from './harness.ts';

let api: TestApi;
let account: Account;
beforeAll(async () => {
  api = await startApi();
  account = await api.newAccount();
});
afterAll(() => api.stop());

const post = (path: string, body: unknown, quoteId?: string, { token } = account) =>
  api.send(`/api${path}`, {
    method: 'POST',
    token,
    headers: { 'content-type': 'application/json', ...(quoteId === undefined ? {} : { 'x-berth-quote': quoteId }) },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });

test('a quote has the documented members, and its launch the price', async () => {
  const { quote } = await account.client.quote(launchRequest());
  expect(quote).toEqual({
    quoteId: expect.stringMatching(/^[\w.-]{100,400}$/),
    expiresAtUnixMs: expect.any(Number),
    chargeMode: 'perHour',
    duration: 1,
    price: expect.any(Number),
    unit: 'hour',
    pricePerHour: quote.price,
    pricePerDay: expect.closeTo(quote.price * 24, 5),
    total: 0,
    stoppedPricePerHour: expect.any(Number),
    startsAtUnixMs: expect.any(Number),
    stops: [],
    cheapestStart: { chargeMode: 'perHour', pricePerHour: quote.price, atUnixMs: quote.startsAtUnixMs },
    nextPriceChange: null,
    available: expect.any(Number),
    burnRatePerHour: expect.any(Number),
    balanceLastsHours: expect.any(Number),
    stockStatus: 'InStock',
  });
  const { instances } = await account.client.listInstances({ pager: { currentPage: 1, pageSize: 1 } });
  expect(instances).toEqual([]);
  const admin = api.admin.client;
  const types = (await admin.listTypes({ pager: { currentPage: 1, pageSize: 50 } })).types;
  const type = types.find(({ instanceTypeId }) => instanceTypeId === launchRequest().instanceTypeId);
  if (!type) throw new Error('the type of launches is not offered');
  const { instanceTypeId, version, prices } = type;
  const raised = quote.price + 1;
  await admin.updateType({ instanceTypeId, version, prices: { ...prices, perHour: raised } });
  await account.client.launch(launchRequest(), { quoteId: quote.quoteId });
  const listed = await account.client.listInstances({ pager: { currentPage: 1, pageSize: 1 } });
  expect(listed.instances[0]?.instanceSpecInfo.instanceBillingInfo.price).toBe(quote.price);
  expect((await account.client.quote(launchRequest())).quote.price).toBe(raised);
});

test('bodies are compared by content, not by order and spacing', async () => {
  const { quote } = await account.client.quote(launchRequest());
  const members = Object.entries(launchRequest()).toReversed();
  const spaced = JSON.stringify(Object.fromEntries(members), null, 3);
  expect((await post('/instance/create', spaced, quote.quoteId)).status).toBe(200);
  const other = { ...launchRequest(), name: 'another' };
  expect(await post('/instance/create', other, quote.quoteId)).toMatchObject({
    status: 400,
    json: { message: expect.stringMatching(/X-Berth-Quote.*body differs/) },
  });
});

test('a quote of another account, and a forged one, are refused', async () => {
  const { quote } = await account.client.quote(launchRequest());
  const other = await api.newAccount();
  expect(await post('/instance/create', launchRequest(), quote.quoteId, other)).toMatchObject({
    status: 400,
    headers: { 'x-error-code': 'field_value' },
    json: { message: expect.stringMatching(/another account/) },
  });
  for (const forged of ['1', 'x.y', `${quote.quoteId}x`, `${quote.quoteId}, ${quote.quoteId}`])
    expect(await post('/instance/create', launchRequest(), forged)).toMatchObject({
      status: 400,
      json: { message: expect.stringMatching(/no quote of this server/) },
    });
});

test.each([
  [{ billing: { chargeMode: 'perHour', duration: 2 } }, 400],
  [{ billing: { chargeMode: 'perDay', duration: 0 } }, 400],
  [{ billing: { chargeMode: 'perDay', duration: -1 } }, 400],
  [{ billing: { chargeMode: 'perDay', duration: 1.5 } }, 400],
  [{ billing: { chargeMode: 'perMonth', duration: 1_000_000_000 } }, 400],
  [{ billing: { chargeMode: 'perYear', duration: 1 } }, 400],
  [{ instanceTypeId: ids.region }, 404],
  [{ name: undefined }, 400],
  [{ unknown: 1 }, 200],
])('answers a quote with %j as the launch does', async (over, status) => {
  const body = { ...launchRequest(), ...over };
  const [quoted, launched] = [await post('/instance/quote', body), await post('/instance/create', body)];
  expect([quoted.status, launched.status]).toEqual([status, status]);
  if (status !== 200) expect(quoted.json).toMatchObject({ message: expect.anything() });
});
