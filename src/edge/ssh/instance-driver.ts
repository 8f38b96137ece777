import type { SshDrivers } from '../../control/index.ts';
export type InstanceNetwork = Awaited<ReturnType<SshDrivers['joinNetwork']>>;
export type NetworkConnection = Parameters<Parameters<InstanceNetwork['listen']>[1]>[0];
export type ExecWish = Parameters<SshDrivers['openExec']>[1];
export type TerminalSize = NonNullable<ExecWish['terminal']>;
export type OpenExec = Awaited<ReturnType<SshDrivers['openExec']>>;
