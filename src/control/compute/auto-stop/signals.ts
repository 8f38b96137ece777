/** Reads the signals of one instance in parallel. An unreadable signal is unread, never idle. */
import type { Instance } from '../../../domain/compute/instance.ts';
import { unreadSignal, type IdlePolicy, type IdleSignal, type SignalName } from '../../../domain/compute/idle.ts';
import { SSH_PORT } from '../../../domain/access/port-access.ts';
import { errorText } from '../../../domain/kernel/unknown-error.ts';
import type { Usage } from '../../../engines/contract.ts';
import type { ProbeTarget } from '../inside/probes.ts';
import { lastingConnections, type Connection } from './tcp-connections.ts';
import { makeNotebook, type NotebookAnswer, type NotebookUse } from './notebook.ts';
import type { Traffic } from '../../access/ports.ts';

/** A healthy server takes tens of milliseconds; any software may run on the port. */
const NOTEBOOK_DEADLINE_MS = 4_000;

export interface SignalDeps {
  inside: ProbeTarget;
  instance: Instance;
  notebookToken: string;
  policy: IdlePolicy;
  required: readonly SignalName[];
  traffic: Pick<Traffic, 'of'>;
  probeMs: number;
}

export async function readSignals(deps: SignalDeps): Promise<IdleSignal[]> {
  const { inside, instance, policy, traffic } = deps;
  const [atMs, elapsedMs] = [inside.time.now(), inside.time.elapsed()];
  const asking = AbortSignal.any([inside.signal, inside.time.deadline(NOTEBOOK_DEADLINE_MS)]);
  const notebook = makeNotebook({ ...inside, signal: asking }, deps.notebookToken);
  const ports = new Set([SSH_PORT, ...instance.nodePorts.map(({ port }) => port)]);
  const kernels = lazy(() => notebook.kernels());
  const connections = lazy(() => lastingConnections(inside, ports, deps.probeMs));
  const usage = lazy(() => readUsage(inside));

  const readers: Record<SignalName, () => Promise<Omit<IdleSignal, 'name'>>> = {
    async keepAlive() {
      const { keepAliveUntilMs } = instance.stopPolicy;
      const until = `until ${new Date(keepAliveUntilMs).toISOString()}`;
      const text =
        keepAliveUntilMs > atMs ? `a keep-alive call prevents the stop ${until}` : 'no keep-alive call is active';
      return { atMs, inUse: keepAliveUntilMs > atMs, usedAtMs: Math.min(keepAliveUntilMs, atMs), text };
    },
    kernel: async () => signalOfNotebook(await kernels(), 'kernel', atMs),
    terminal: async () => signalOfNotebook(await notebook.terminals(), 'terminal', atMs),
    async ssh() {
      const open = (await connections()).filter(({ port }) => port === SSH_PORT).length;
      const text =
        open === 0 ? 'no ssh session is open' : open === 1 ? 'an ssh session is open' : `${open} ssh sessions are open`;
      return { atMs, inUse: open > 0, usedAtMs: 0, text };
    },
    async http() {
      const direct = (await connections()).filter(({ port }) => port !== SSH_PORT);
      // Open notebook pages poll forever; the server reports real use. Other software does not.
      const vouches = (await kernels()) !== 'none';
      const { open, lastMs } = traffic.of(instance.id, vouches ? ['use'] : ['use', 'poll']);
      const quietMs = Math.max(0, elapsedMs - lastMs);
      return {
        atMs,
        inUse: open + direct.length > 0,
        usedAtMs: Math.max(0, Math.ceil(atMs - quietMs)),
        text: httpText(open, direct, quietMs),
      };
    },
    async gpu() {
      const { gpus, atMs: readAtMs } = await usage();
      const percents = (gpus ?? []).flatMap(({ busyPercent }) => busyPercent ?? []);
      if (gpus === null || percents.length < gpus.length) throw new Error('the GPUs of the instance could not be read');
      const percent = Math.max(...percents);
      const text = `the busiest GPU is at ${percent} %`;
      return { atMs: readAtMs, inUse: percent >= policy.gpuPercent, usedAtMs: 0, text };
    },
    async cpu() {
      const { cpuMilli, atMs: readAtMs } = await usage();
      const text = `the instance uses ${Math.round(cpuMilli / 10)} % of one CPU`;
      return { atMs: readAtMs, inUse: cpuMilli >= policy.cpuPercent * 10, usedAtMs: 0, text };
    },
  };
  const read = async (name: SignalName): Promise<IdleSignal> => {
    try {
      return { name, ...(await readers[name]()) };
    } catch (error) {
      return unreadSignal(name, errorText(error));
    }
  };
  return Promise.all(deps.required.map(read));
}

function lazy<Answer>(ask: () => Promise<Answer>): () => Promise<Answer> {
  let asked: Promise<Answer> | null = null;
  return () => (asked ??= ask());
}

async function readUsage({ engine, id, signal }: ProbeTarget): Promise<Usage> {
  const used = (await engine.usage([id], signal)).get(id);
  if (!used) throw new Error('the engine reports no usage of the instance');
  return used;
}

function signalOfNotebook(
  answer: NotebookAnswer<NotebookUse>,
  what: 'kernel' | 'terminal',
  atMs: number,
): Omit<IdleSignal, 'name'> {
  if (answer === 'none') return { atMs, inUse: false, usedAtMs: 0, text: 'no notebook server answers' };
  const { busy, lastMs, count } = answer;
  // The notebook uses the instance's clock.
  const usedAtMs = Math.min(lastMs, atMs);
  const text = count === 0 ? `no ${what} is open` : `a ${what} was used ${ago(atMs - usedAtMs)}`;
  return { atMs, inUse: busy !== null, usedAtMs, text: busy ?? text };
}

function httpText(open: number, direct: readonly Connection[], quietMs: number): string {
  const [first] = direct;
  if (open > 0)
    return `${open} ${open === 1 ? 'request or WebSocket is' : 'requests and WebSockets are'} open through the gateway`;
  if (first) return `a connection to port ${first.port} is open`;
  return quietMs === Infinity
    ? 'no request came through the gateway'
    : `the last data came through the gateway ${ago(quietMs)}`;
}

const ago = (ms: number): string => `${Math.max(0, Math.round(ms / 1000))} s ago`;
