import type { InstanceId } from '../../../domain/kernel/ids.ts';
import type { ExecResult } from '../../contract.ts';
import type { ClusterContext } from '../cluster-context.ts';
import { collect, openCommand } from './pod-commands.ts';

/** Runs a command without input. An abort drops the answer; the command goes on. */
export async function runInside(
  context: ClusterContext,
  id: InstanceId,
  command: readonly string[],
  signal: AbortSignal,
): Promise<ExecResult> {
  const request = { command, env: {}, terminal: null };
  return collect(await openCommand({ context, id, request, signal, leaving: signal, noInput: true }));
}
