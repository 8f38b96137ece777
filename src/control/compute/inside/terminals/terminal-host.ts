/**
 * Host of terminals: shells with a scrollback and any number of viewers. In the gateway process, so
 * terminals outlive API restarts. Does not check ownership.
 */
import type { InstanceId } from '../../../../domain/kernel/ids.ts';
import type { TerminalSize } from '../../../../engines/contract.ts';

export interface TerminalId {
  instanceId: InstanceId;
  name: string;
}

export interface AttachRequest extends TerminalId {
  ownerId: string;
  /** Quota of the owner. */
  maxOfOwner: number;
  size: TerminalSize;
}

export interface TerminalInfo extends TerminalSize {
  terminal: string;
  viewers: number;
  createdAtUnixMs: number;
  closesAtUnixMs: number | null;
}

export type TerminalMessage =
  | { kind: 'output'; bytes: Uint8Array }
  | { kind: 'reset' }
  | ({ kind: 'size' } & TerminalSize)
  | { kind: 'ended'; exitCode: number | null; why: string }
  /** Last message. The shell may still run and accept viewers. */
  | { kind: 'lost'; why: string };

export interface AttachedTerminal {
  created: boolean;
  size: TerminalSize;
  /** Read once: a replay, then new output. Ends after the last message or `leave`. */
  messages: AsyncIterable<TerminalMessage>;
  type(bytes: Uint8Array): Promise<void>;
  resize(size: TerminalSize): void;
  leave(): void;
}

export interface TerminalHost {
  /** Opens the terminal if needed. The signal ends only the attach. Throws a `Refusal`. */
  attach(request: AttachRequest, signal: AbortSignal): Promise<AttachedTerminal>;
  list(instanceId: InstanceId): Promise<TerminalInfo[]>;
  /** Kills the shell and its children. Throws `not_found`. */
  close(id: TerminalId): Promise<void>;
}
