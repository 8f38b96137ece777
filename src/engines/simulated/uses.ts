/** Usage of a simulated instance by script: notebook kernels and terminals, and connections. */
import type { Container } from './container.ts';
import type { UseName } from './script.ts';

export function useOf({ state, script, startedAtMs }: Container, name: UseName, nowMs: number): number {
  const use = script.uses.get(name);
  return use !== undefined && state === 'running' && nowMs < startedAtMs + use.forMs ? use.amount : 0;
}

const lastUseMs = ({ script, startedAtMs }: Container, name: UseName, nowMs: number): number =>
  Math.min(nowMs, startedAtMs + (script.uses.get(name)?.forMs ?? 0));

/** Answers of the notebook's API by path suffix. */
export function notebookAnswer(container: Container, what: string, nowMs: number): object | undefined {
  const { uses } = container.script;
  const last = (name: UseName) => ({ last_activity: new Date(lastUseMs(container, name, nowMs)).toISOString() });
  const kernel = {
    id: 'simulated-kernel',
    name: 'python3',
    execution_state: useOf(container, 'kernel', nowMs) > 0 ? 'busy' : 'idle',
    connections: 0,
    ...last('kernel'),
  };
  switch (what) {
    case 'kernels':
      return uses.has('kernel') ? [kernel] : [];
    case 'terminals':
      return uses.has('terminal') ? [{ name: '1', ...last('terminal') }] : [];
    case 'sessions':
      return uses.has('kernel')
        ? [{ id: 'simulated-session', path: 'train.ipynb', name: 'train.ipynb', type: 'notebook', kernel }]
        : [];
    default:
      return undefined;
  }
}

const COLUMNS = '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n';

/** `/proc/net/tcp` and `tcp6` with sshd and the script's sessions. */
export function connectionTable(container: Container, file: string, nowMs: number): string | undefined {
  if (file === '/proc/net/tcp6') return COLUMNS;
  if (file !== '/proc/net/tcp') return undefined;
  const line = (at: number, ends: string, state: string): string =>
    `${String(at).padStart(4)}: ${ends} ${state} 00000000:00000000 00:00000000 00000000     0        0 ${1000 + at} 1 0 100 0 0 10 0\n`;
  const sessions = Array.from({ length: useOf(container, 'ssh', nowMs) }, (_, at) =>
    line(at + 1, `020011AC:0016 010011AC:${(50_000 + at).toString(16).toUpperCase()}`, '01'),
  );
  return [COLUMNS, line(0, '00000000:0016 00000000:0000', '0A'), ...sessions].join('');
}
