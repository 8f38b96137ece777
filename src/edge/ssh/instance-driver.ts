import type { SshBackend } from '../../control/index.ts';
export type InstanceNetwork = Awaited<ReturnType<SshBackend['joinNetwork']>>;
export type NetworkConnection = Parameters<Parameters<InstanceNetwork['listen']>[1]>[0];
export type ExecRequest = Parameters<SshBackend['openExec']>[1];
export type TerminalSize = NonNullable<ExecRequest['terminal']>;
export type OpenExec = Awaited<ReturnType<SshBackend['openExec']>>;
