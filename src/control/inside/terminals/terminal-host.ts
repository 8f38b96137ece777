/**
 * # Terminals
 *
 * A terminal is a shell inside an instance with the last of what it showed. It goes on when nobody looks at it, and several may look at once.
 * What holds terminals (`holder.ts`) has to outlive restarts of the API, and so is this interface: it is kept in the process of the gateway,
 * and asked from there over a socket where that is a process of its own (`edge/link/`). Whose an instance is, is no question here.
 */
import type { InstanceId } from '../../../domain/ids.ts';
import type { TerminalSize } from '../../../engines/contract.ts';

export interface TerminalId {
  instanceId: InstanceId;
  name: string;
}

export interface AttachRequest extends TerminalId {
  /** For the bound of an account. */
  ownerId: string;
  /** Whoever comes last sizes it. */
  size: TerminalSize;
}

export interface TerminalInfo extends TerminalSize {
  name: string;
  viewers: number;
  createdAtMs: number;
  /** When it is closed, if nobody comes; null while somebody is attached. */
  closesAtMs: number | null;
}

export type TerminalMessage =
  | { kind: 'output'; bytes: Uint8Array }
  /** What was shown is to be forgotten; all that counts follows. */
  | { kind: 'reset' }
  | ({ kind: 'size' } & TerminalSize)
  /** The last. Null: it is over, and nobody can tell with which exit code. */
  | { kind: 'ended'; exitCode: number | null; why: string }
  /** The last. What runs may run on, and may be attached to again. */
  | { kind: 'lost'; why: string };

export interface AttachedTerminal {
  /** Made for this viewer. */
  created: boolean;
  size: TerminalSize;
  /** To be read once: first what the terminal showed, then what it shows, no faster than it is read. Ends after the last, and with `leave`. */
  messages: AsyncIterable<TerminalMessage>;
  /** Resolves when there is room for more. */
  type(bytes: Uint8Array): Promise<void>;
  resize(size: TerminalSize): void;
  /** The terminal goes on. */
  leave(): void;
}

export interface TerminalHost {
  /** Makes it when it isn't there. The signal ends the attaching alone. Throws a `Refusal`. */
  attach(wish: AttachRequest, signal: AbortSignal): Promise<AttachedTerminal>;
  /** By name. */
  list(instanceId: InstanceId): Promise<TerminalInfo[]>;
  /** Kills the shell with all that it began. Throws `not_found`. */
  close(place: TerminalId): Promise<void>;
}
