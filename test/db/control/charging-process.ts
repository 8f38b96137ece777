/**
 * Process that books usage until it is killed. Arguments: the database as JSON, the minute at which
 * it begins. Prints each minute before it books it.
 */
import { argv, stdout } from 'node:process';
import { openStore } from '../../../src/store/open.ts';
import { chargingAt } from './charging.ts';

const [database = '', from = ''] = argv.slice(2);
const quiet = { info: () => {}, warn: () => {}, error: () => {} };
const store = await openStore({ ...JSON.parse(database), log: quiet });
const { clock, charge } = chargingAt(store, Number(from));
for (;;) {
  stdout.write(`${clock.nowMs}\n`);
  await charge();
  clock.nowMs += 60_000;
}
