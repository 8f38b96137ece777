/** A virtual environment with packages of PyPI, for one test file. */
import { execFile } from 'node:child_process';
import { glob, mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { findProgram } from '../../../scripts/lib/run.mjs';
import { bringsProgram } from '../../fixtures/programs.ts';

const run = promisify(execFile);

/** Those of the path, and of pyenv, whose programs in the path run one version alone. */
async function* pythons(version: string): AsyncGenerator<string> {
  for (const name of [`python${version}`, 'python3']) {
    bringsProgram(name);
    yield findProgram(name) ?? '';
  }
  const root = process.env['PYENV_ROOT'] ?? path.join(os.homedir(), '.pyenv');
  yield* glob(path.join(root, `versions/${version}.*/bin/python3`));
}

/** The version, such as `3.12`, has wheels of all packages: others build them, for half an hour. */
export async function findPython(version: string): Promise<string | null> {
  for await (const file of pythons(version)) {
    const said = file === '' ? null : await run(file, ['--version']).catch(() => null);
    if (said?.stdout.startsWith(`Python ${version}.`)) return file;
  }
  return null;
}

export interface Python {
  /** Runs a program of the environment; an exit code that is not 0 rejects. */
  run(program: string, args: readonly string[], options?: { cwd?: string }): Promise<string>;
  folder: string;
  remove(): Promise<void>;
}

export async function openPython(python: string, packages: readonly string[]): Promise<Python> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-python-'));
  const bin = (name: string): string => path.join(folder, 'venv/bin', name);
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    await run(python, ['-m', 'venv', path.join(folder, 'venv')]);
    await run(bin('pip'), ['install', '--quiet', '--disable-pip-version-check', '--prefer-binary', ...packages]);
  } catch (error) {
    await remove();
    throw error;
  }
  const most = { maxBuffer: 64 * 1024 * 1024 };
  return {
    folder,
    remove,
    run: async (program, args, options = {}) => (await run(bin(program), args, { ...most, ...options })).stdout,
  };
}
