/** A login provider of the tests: its own program, with people and Berth as its client. */
import { spawn } from 'node:child_process';
import type { Page } from 'playwright-core';

export interface Person {
  name: string;
  isVerified?: boolean;
  isAdmin?: boolean;
}

/** Password of each person. */
export const PASSWORD = 'people of the tests';
export const ADMINS = 'berth-admins';
export const emailOf = (name: string): string => `${name}@example.org`;

export interface StartOptions {
  people: readonly Person[];
  secret: string;
  redirectUri: string;
  backchannelUri: string;
}

export interface LoginProviderProgram {
  /** Changes with `move`. */
  readonly issuer: string;
  /** Settings of Berth that this provider needs. */
  settings?: Readonly<Record<string, string>>;
  /** Logs the person in at the page of the provider. */
  fillIn(page: Page, name: string): Promise<void>;
  /** Answers who is logged in whether to go on as that person; undefined: nobody asks. */
  goOn?(page: Page): Promise<void>;
  /** Whether the login of a second tab goes on once the first is logged in. */
  goesOnInTabs?: boolean;
  /** Answers the question whether to log out; undefined: there is none. */
  confirmLogout?(page: Page): Promise<void>;
  /** Whether a logout ends at a page of the provider, which does not lead back. */
  staysAtLogout?: boolean;
  /** Sends no claim with groups from now on. */
  leaveGroupsOut(): Promise<void>;
  /** Ends the login of the person at the provider. */
  endLogin(page: Page, name: string): Promise<void>;
  changeKey(): Promise<void>;
  /** Gives the provider another address; people keep their subjects. */
  move(): Promise<void>;
  stop(): Promise<void>;
}

const START_MS = 240_000;

/** Starts a program in a process group of its own; resolves once its output has the greeting. */
export async function startProgram(
  command: string,
  args: readonly string[],
  { cwd, env = {}, greeting }: { cwd: string; env?: Record<string, string>; greeting: string },
): Promise<{ stop(): Promise<void> }> {
  let output = '';
  const child = spawn(command, args, { cwd, detached: true, env: { ...process.env, ...env } });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  const stop = async (): Promise<void> => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
    await ended;
  };
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${command} did not start:\n${output}`)), START_MS);
    const read = (bytes: Buffer): void => {
      output += bytes.toString();
      if (!output.includes(greeting)) return;
      clearTimeout(timer);
      resolve();
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.once('exit', () => reject(new Error(`${command} ended:\n${output}`)));
  }).catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  return { stop };
}
