/** The shapes of an engine's streams and networks that the front works with, by way of control. */
import type { SshHands } from '../../control/control.ts';

export type InstanceNetwork = Awaited<ReturnType<SshHands['joinNetwork']>>;
export type NetworkConnection = Parameters<Parameters<InstanceNetwork['listen']>[1]>[0];
export type ExecWish = Parameters<SshHands['openExec']>[1];
export type TerminalSize = NonNullable<ExecWish['terminal']>;
export type OpenExec = Awaited<ReturnType<SshHands['openExec']>>;
