import type { EngineFault } from '../../../../domain/regions/engine-fault.ts';
import type { Instance } from '../../../../domain/compute/instance.ts';
import type { InstanceStatus } from '../../../../domain/compute/instance-states.ts';
import { Refusal } from '../../../../domain/kernel/refusal.ts';
import type { LogLine } from '../../../../engines/contract.ts';
import type { LogSource } from '../../../../domain/compute/log-position.ts';

const ASK_AGAIN_S = 5;
const HIDDEN = "[the notebook's secret]";

export const redactSecret = (line: LogLine, secret: string): LogLine =>
  secret !== '' && line.text.includes(secret) ? { ...line, text: line.text.replaceAll(secret, HIDDEN) } : line;

const UP: ReadonlySet<string> = new Set<InstanceStatus>(['Running', 'Starting', 'Restarting']);
export const isStartedOrStarting = ({ observed }: Instance): boolean => UP.has(observed.status);

export const hasLog = (instance: Instance, source: LogSource): boolean =>
  source === 'events' || (instance.everEnsured && (source === 'console' || isStartedOrStarting(instance)));

export function isComplete({ desired, initExit, observed }: Instance, source: LogSource): boolean {
  if (source === 'events') return desired === 'released';
  if (source === 'notebook') return false;
  return source === 'init' ? initExit !== null : source === 'start' && observed.startExit !== null;
}

const logNames = {
  console: 'the console',
  init: 'the log of the init script',
  start: 'the log of the start command',
  notebook: 'the log of the notebook server',
} as const;

interface LogRetention {
  /** Whether logs outlive a run, as the root disk does. */
  keepsRootDisk: boolean;
}

export function missingLogReason(
  { id, desired, everEnsured, observed: { status, notebook } }: Instance,
  source: LogSource,
  { keepsRootDisk }: LogRetention,
): string | null {
  if (source === 'events') return null;
  const log = logNames[source];
  const instead = 'send source "events" for the history of the instance';
  if (desired === 'released') return `instance ${id} is terminated, and ${log} was removed; ${instead}`;
  if (source === 'notebook' && status === 'Running' && notebook?.state === 'none')
    return `the image of instance ${id} has no Jupyter, and so no log of it; read the console, or the log of your own program`;
  if (source === 'console' && status === 'Archived')
    return `instance ${id} is Archived, and ${log} was removed with the container; the next start begins a new console; ${instead}`;
  const hasConsole = source === 'console' && status === 'StartingFailed';
  if (everEnsured && AT_REST.has(status) && !keepsRootDisk && !hasConsole)
    return `instance ${id} is ${status}, and ${log} ended with its run, as its root disk did: start the instance and read it while it runs, or write what you need later to the data disk; ${instead}`;
  if (source !== 'console' && everEnsured && AT_REST.has(status))
    return `${log} is on the root disk of instance ${id}, and readable only while the instance runs; the instance is ${status}: start it, or read its console`;
  return null;
}

const AT_REST: ReadonlySet<string> = new Set<InstanceStatus>([
  'Stopped',
  'Archived',
  'StartingFailed',
  'InitializationFailed',
]);

export function logRefusal(fault: EngineFault, { spec: { regionId } }: Instance): Refusal {
  switch (fault.kind) {
    case 'busy':
      return new Refusal('unavailable', 'the instance is paused while its root disk is saved; try again in a moment', {
        retryAfterS: ASK_AGAIN_S,
      });
    case 'rejected':
    case 'denied':
      return new Refusal('unsupported', `the engine of region ${regionId} cannot read this log: ${fault.message}`);
    case 'not_found':
    case 'no_capacity':
    case 'unreachable':
      return new Refusal('unavailable', 'the engine cannot read this log now; try again in a moment', {
        retryAfterS: ASK_AGAIN_S,
        detail: fault,
      });
    default:
      return fault.kind satisfies never;
  }
}
