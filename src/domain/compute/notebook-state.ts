/** State of the notebook server of a run, by reports of the start script. Pure. */

export const notebookStates = ['none', 'starting', 'ready', 'failed'] as const;

export interface NotebookServer {
  /** `none`: no Jupyter in the image. `failed`: ended twice before listening; started again. */
  state: (typeof notebookStates)[number];
  /** Last line of the log at the last end; may be empty. */
  text: string;
  /** Null before the first end. */
  exit: number | null;
  /** Last end of a ready server, by the instance's clock; 0: none. */
  endedAtMs: number;
  endedKernels: number;
}

export const newNotebook: NotebookServer = { state: 'starting', text: '', exit: null, endedAtMs: 0, endedKernels: 0 };
export const noNotebook: NotebookServer = { ...newNotebook, state: 'none' };

const MAX_TEXT = 300;
const FAILED = /^failed (\d{1,3})(?: (.*))?$/;
const ENDED = /^ended (\d{1,3}) (\d{1,11}) (\d{1,9})(?: (.*))?$/;

/** Applies a report, such as `ready`; any other text changes nothing. */
export function afterReport(before: NotebookServer | null, report: string): NotebookServer | null {
  const known = before ?? newNotebook;
  if (report === 'starting') return { ...known, state: 'starting' };
  if (report === 'ready') return { ...known, state: 'ready' };
  const [, failedCode, failedText = ''] = FAILED.exec(report) ?? [];
  if (failedCode !== undefined)
    return { ...known, state: 'failed', exit: Number(failedCode), text: failedText.slice(0, MAX_TEXT) };
  const [, exit, second, kernels, text = ''] = ENDED.exec(report) ?? [];
  if (exit === undefined) return before;
  return {
    state: 'starting',
    exit: Number(exit),
    text: text.slice(0, MAX_TEXT),
    endedAtMs: Number(second) * 1_000,
    endedKernels: Number(kernels),
  };
}

const reasonOf = ({ exit, text }: NotebookServer): string =>
  `with code ${exit}${exit === 137 ? ' (it was killed)' : ''}${text === '' ? '' : `; last line of its log: ${text}`}`;

const kernelsOf = ({ endedKernels }: NotebookServer): string =>
  endedKernels === 0 ? '' : endedKernels === 1 ? ', and a kernel with it' : `, and ${endedKernels} kernels with it`;

/** Text for the owner; empty while all is as it should be. */
export function notebookMessage(notebook: NotebookServer | null): string {
  if (notebook === null) return '';
  const { state, endedAtMs } = notebook;
  if (state === 'failed') return `the notebook server does not start: it ended ${reasonOf(notebook)}`;
  if (endedAtMs === 0) return '';
  const at = new Date(endedAtMs).toISOString().slice(0, 19);
  const then = state === 'ready' ? '; it runs again' : '';
  return `the notebook server ended at ${at}Z${kernelsOf(notebook)}, ${reasonOf(notebook)}${then}`;
}
