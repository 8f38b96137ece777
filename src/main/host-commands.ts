/**
 * Commands of the host (`npm run admin`). The running server takes them on a socket in its data
 * folder, because one server alone writes a database; without a server the command locks the data
 * folder and writes by itself.
 */
import { existsSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { z } from 'zod';
import { accountInfo } from '../control/access/account-admin.ts';
import { argon2id, makePasswords } from '../control/access/passwords.ts';
import { resetPasswordOf, resetSecondFactorOf } from '../control/access/host-resets.ts';
import type { Control, Log } from '../control/index.ts';
import { realTime } from '../control/kernel/time.ts';
import { accountStates } from '../domain/access/account-state.ts';
import { Refusal } from '../domain/kernel/refusal.ts';
import { roles } from '../domain/access/roles.ts';
import { errorCode } from '../domain/kernel/unknown-error.ts';
import { makeLinkClient } from '../edge/link/link-client.ts';
import { serveLinkAt, type LinkServer } from '../edge/link/link-server.ts';
import { makeConvert } from '../store/db/convert.ts';
import { lockDatabase } from '../store/db/database-lock.ts';
import { lockFolder } from '../store/db/folder-lock.ts';
import { reachPostgres } from '../store/db/reach-postgres.ts';
import { openStore } from '../store/open.ts';
import { accountPage } from '../store/tables/accounts.ts';
import type { Store } from '../store/store.ts';
import type { Config } from './config.ts';

type HostConfig = Pick<Config, 'dataFolder' | 'databaseUrl'>;

const person = z.object({ username: z.string(), role: z.enum(roles), state: z.enum(accountStates) });
const listAnswer = z.array(person);
const resetAnswer = person.extend({ password: z.string() });
const resetQuestion = z.object({ username: z.string() });

export interface HostCommands {
  list(): Promise<z.output<typeof listAnswer>>;
  resetPassword(username: string): Promise<z.output<typeof resetAnswer>>;
  resetSecondFactor(username: string): Promise<z.output<typeof person>>;
}

const PAGE_SIZE = 500;
const ANSWER_MS = 30_000;

/** Socket of the running server, mode 0600. */
const socketPath = ({ dataFolder }: HostConfig): string => join(dataFolder, 'admin.sock');

async function allPages(
  page: (currentPage: number) => Promise<z.output<typeof listAnswer>>,
): Promise<z.output<typeof listAnswer>> {
  const all: z.output<typeof listAnswer> = [];
  for (let currentPage = 1; ; currentPage++) {
    const some = await page(currentPage);
    all.push(...some.map(({ username, role, state }) => ({ username, role, state })));
    if (some.length < PAGE_SIZE) return all;
  }
}

export function serveHostCommands(
  config: HostConfig,
  accounts: Pick<Control['accounts'], 'list' | 'resetAtHost' | 'resetSecondFactorAtHost'>,
  log: Pick<Log, 'error' | 'warn'>,
): Promise<LinkServer> {
  return serveLinkAt({
    address: socketPath(config),
    log,
    async answer(req) {
      if (req.url === '/list')
        return allPages(
          async (currentPage) => (await accounts.list({}, { currentPage, pageSize: PAGE_SIZE })).accounts,
        );
      if (req.url !== '/resetPassword' && req.url !== '/resetSecondFactor')
        throw new Refusal('not_found', `the server knows no command ${req.url}`);
      const { username: name } = resetQuestion.parse(await json(req));
      if (req.url === '/resetSecondFactor') {
        const { username, role, state } = await accounts.resetSecondFactorAtHost(name);
        log.warn({ username }, 'a second factor was reset on the host');
        return { username, role, state };
      }
      const { username, password, role, state } = await accounts.resetAtHost(name);
      log.warn({ username }, 'a password was reset on the host');
      return { username, password, role, state };
    },
  });
}

/** Lends the commands of the running server, or of the stored data. Throws if neither is there. */
export async function withHostCommands<Result>(
  config: HostConfig,
  use: (commands: HostCommands) => Promise<Result>,
): Promise<Result> {
  refuseOtherFolder(config);
  const away = 'the server does not answer; run this command as the user of the server';
  const client = makeLinkClient({ address: socketPath(config), headers: {}, timeoutMs: ANSWER_MS, away });
  const commands: HostCommands = {
    list: () => client.ask('list', {}, listAnswer),
    resetPassword: (username) => client.ask('resetPassword', { username }, resetAnswer),
    resetSecondFactor: (username) => client.ask('resetSecondFactor', { username }, person),
  };
  try {
    return await use(commands);
  } catch (error) {
    const code = error instanceof Refusal ? errorCode(error.detail) : undefined;
    // No server, or a socket that a dead one left.
    if (code !== 'ENOENT' && code !== 'ECONNREFUSED') throw error;
    return await withStore(config, { log: quiet }, (store) => use(storedCommands(store)));
  } finally {
    client.stop();
  }
}

const refuseOtherFolder = ({ dataFolder }: HostConfig): void => {
  if (!existsSync(join(dataFolder, 'secrets.key')))
    throw new Refusal('not_found', `${dataFolder} has no installation; set BERTH_DATA as for the server`);
};

/** Converts a database of before 0.2, and says what it did. No server may run. */
export async function convertStoredData(config: HostConfig, say: (text: string) => void): Promise<void> {
  refuseOtherFolder(config);
  const file = databaseFile(config);
  if (config.databaseUrl === null && !existsSync(file))
    throw new Refusal('not_found', `there is no ${file}; set BERTH_DATABASE_URL as for the server`);
  const log = { ...quiet, info: (_: object, text: string) => say(text) };
  await withStore(config, { log, prepare: makeConvert(log) }, async () => {});
}

const quiet = { info() {}, warn() {}, error() {} };

const databaseFile = ({ dataFolder }: HostConfig): string => join(dataFolder, 'berth.db');

async function withStore<Result>(
  config: HostConfig,
  options: Pick<Parameters<typeof openStore>[0], 'log' | 'prepare'>,
  use: (store: Store) => Promise<Result>,
): Promise<Result> {
  const { dataFolder, databaseUrl } = config;
  const lock = lockFolder(dataFolder);
  const onLost = (): never => process.exit(1);
  try {
    if (databaseUrl !== null) await reachPostgres({ url: databaseUrl });
    const database = databaseUrl === null ? null : await lockDatabase({ url: databaseUrl, log: quiet, onLost });
    try {
      const store = await openStore({ url: databaseUrl ?? undefined, file: databaseFile(config), ...options });
      try {
        return await use(store);
      } finally {
        await store.stop();
      }
    } finally {
      await database?.release();
    }
  } finally {
    lock.release();
  }
}

function storedCommands(store: Store): HostCommands {
  const passwords = makePasswords({ randomBytes, argon2id, atOnce: 1 });
  const page = (currentPage: number) =>
    accountPage(store.read, {}, { offset: (currentPage - 1) * PAGE_SIZE, limit: PAGE_SIZE });
  return {
    list: () => allPages(async (currentPage) => (await page(currentPage)).rows.map(accountInfo)),
    resetPassword: (username) => resetPasswordOf({ store, time: realTime, randomBytes, passwords }, username),
    resetSecondFactor: (username) => resetSecondFactorOf({ store, time: realTime }, username),
  };
}
