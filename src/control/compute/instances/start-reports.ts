/**
 * Lines of the start script (`images/start.sh`) on the console. The owner can forge them: they
 * decide about this instance alone.
 */
import { afterReport, noNotebook, type NotebookServer } from '../../../domain/compute/notebook-state.ts';

const MAX_FAILURE = 500;

export interface ConsoleReport {
  services: string[] | null;
  init: ScriptReport;
  start: ScriptReport;
  notebook: NotebookServer | null;
}

export type ScriptReport = { exit: number; failure: string } | 'running' | 'lost' | null;
const SCRIPT_EXIT = /^(\d{1,3})(?:\s+(.*))?$/;

export function parseExit(text: string): ScriptReport {
  const [, code, failure = ''] = SCRIPT_EXIT.exec(text.trim()) ?? [];
  return code === undefined ? null : { exit: Number(code), failure: plainText(failure) };
}

/** Colors of terminals and control characters left out. */
export const plainText = (text: string): string =>
  text
    .replaceAll(/\p{Cc}?\[[0-9;]*m/gu, '')
    .replaceAll(/\p{Cc}+/gu, ' ')
    .slice(0, MAX_FAILURE);

/** Parses the start script's lines of the last start. */
export function parseConsole(lines: readonly string[]): ConsoleReport {
  const report: ConsoleReport = { services: null, init: null, start: null, notebook: null };
  for (const line of lines) {
    const words = line.trim().split(/\s+/);
    if (words[0] !== 'berth:') continue;
    const [, subject, verb] = words;
    // The first line of a start: the exit of an earlier start command is out of date.
    if (subject === 'services') {
      const services = words.slice(2).filter((word) => word !== 'none');
      Object.assign(report, { services, start: null, notebook: services.includes('notebook') ? null : noNotebook });
    }
    if (subject === 'notebook') report.notebook = afterReport(report.notebook, plainText(words.slice(2).join(' ')));
    if (subject !== 'init' && subject !== 'start') continue;
    if (verb === 'started') report[subject] = 'running';
    if (verb === 'lost') report[subject] = 'lost';
    if (verb === 'exit') report[subject] = parseExit(words.slice(3).join(' ')) ?? report[subject];
  }
  return report;
}
