/** Answers to the owner of an instance where nothing answers inside: costs, loopback. */
import type { BarFigures, Forwarding, NotebookBar } from '../../control/index.ts';
import { BYTES_PER_GB } from '../../domain/storage/disk.ts';
import { wantsPage } from '../full-cookies.ts';
import type { Authorized } from './admission.ts';
import { loopbackOnly, type Answer } from './answers.ts';
import type { ClientRequest } from './client-exchange.ts';
import type { Head } from './head.ts';
import { listensOnLoopback } from './loopback.ts';
import type { InstanceTarget } from './routing.ts';

export interface OwnerDeps {
  forwarding: Pick<Forwarding, 'dial' | 'dialLoopback'>;
  notebookBar: Pick<NotebookBar, 'read'>;
  apiUrl: string;
}

interface Unanswered {
  req: Pick<ClientRequest, 'method'>;
  head: Pick<Head, 'accept'>;
  authorized: Authorized;
  target: InstanceTarget;
  opensLoopback: boolean;
}

/** Never rejects: what can't be read is left out. */
export async function toOwner(
  deps: OwnerDeps,
  { req, head, authorized, target, opensLoopback }: Unanswered,
  answer: Answer,
): Promise<Answer> {
  const { instanceId, port, mount } = target;
  if (!authorized.owner || req.method !== 'GET') return answer;
  if (mount === 'notebook')
    return wantsPage(head.accept) ? withBar(deps, { ownerId: authorized.route.ownerId, instanceId }, answer) : answer;
  if (opensLoopback || !(await listensOnLoopback(deps.forwarding, { instanceId, port }))) return answer;
  return loopbackOnly(target, deps.apiUrl);
}

/** The bar of a notebook, in words: no notebook shows it. */
async function withBar(
  { notebookBar, apiUrl }: OwnerDeps,
  owned: { ownerId: string; instanceId: string },
  answer: Answer,
): Promise<Answer> {
  try {
    const link = { href: `${apiUrl}/instances/${owned.instanceId}`, text: 'Stop or change it in the console' };
    return { ...answer, help: [...(answer.help ?? []), ...factsOf(await notebookBar.read(owned))], link };
  } catch {
    return answer;
  }
}

const gibOf = (bytes: number): string => (bytes / BYTES_PER_GB).toFixed(1);

function factsOf({ name, pricePerHour, costSoFar, stopsInMs, gpus }: BarFigures): string[] {
  const facts: string[] = [];
  if (pricePerHour + costSoFar > 0)
    facts.push(`"${name}" has cost $${costSoFar.toFixed(2)} so far, at $${pricePerHour} an hour`);
  if (stopsInMs !== null) facts.push(`it stops by itself in ${timeOf(Math.ceil(stopsInMs / 60_000))}`);
  if (gpus !== null && gpus.memoryUsedBytes !== null && gpus.memoryTotalBytes !== null)
    facts.push(
      `its GPUs are ${gpus.busyPercent ?? 0} % busy, with ${gibOf(gpus.memoryUsedBytes)} of ${gibOf(gpus.memoryTotalBytes)} GiB in use`,
    );
  return facts;
}

const timeOf = (minutes: number): string =>
  minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
