/** `GET /api/events`: `id` is an event's number; the id of a `gap` is the cursor after it. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { GAP_EVENT } from '../../../contract/delivery/events.ts';
import { routes } from '../../../contract/routes.ts';
import type { PublishedEvents } from '../../../control/index.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { parameterOf } from '../request.ts';
import { firstOf } from '../server-sent.ts';
import { rowOptions, type StreamParts } from '../mount.ts';
import { makeRefuseUnknownParameters } from '../unknown-members.ts';

const SEQ = /^\d{1,15}$/;
/** Events that may end the reader's own login: revalidate instead of trusting the cache. */
const ENDINGS: ReadonlySet<string> = new Set(['account.loggedOut', 'account.passwordChanged', 'apiKey.deleted']);

export function mountEventStream(app: FastifyInstance, { control, streams, authorize }: StreamParts): void {
  const refuseUnknown = makeRefuseUnknownParameters(routes.events.query);
  app.route({
    ...rowOptions(routes.events),
    async handler(request, reply) {
      const caller = await authorize(request, routes.events, reply);
      refuseUnknown(request);
      const after = parseAfter(request);
      await streams.open({ request, reply, caller }, async ({ abort, checkLogin, send }) => {
        await using pages = control.events.follow(caller, after, abort.signal);
        const { lastSeq } = await firstOf(pages);
        await send(async (write) => {
          await write(`id: ${lastSeq}\n\n`);
          for await (const page of pages) {
            if (!(await checkLogin(page.events.some(({ kind }) => ENDINGS.has(kind))))) return;
            await write(textOf(page));
            // Pages of SQLite follow each other within one turn of the event loop.
            await nextTurn();
          }
        });
      });
    },
  });
}

function parseAfter(request: FastifyRequest): number | null {
  const header = request.headers['last-event-id'] || undefined;
  const name = header === undefined ? 'query parameter "after"' : 'header "Last-Event-ID"';
  const text = header ?? parameterOf(request, 'after');
  if (text === undefined) return null;
  if (typeof text !== 'string' || !SEQ.test(text))
    throw new Refusal(
      'field_value',
      `the ${name} must be the number of an event; leave it out to begin with new events`,
    );
  return Number(text);
}

function textOf({ gap, events, lastSeq }: PublishedEvents): string {
  const texts = events.map(({ seq, kind, subjectId, atMs, dataText }) => {
    const members = JSON.stringify({ seq, kind, subjectId, atUnixMs: atMs }).slice(0, -1);
    return `id: ${seq}\nevent: ${kind}\ndata: ${members},"data":${dataText}}\n\n`;
  });
  if (!gap) return texts.join('');
  const lastMissedSeq = events[0] ? events[0].seq - 1 : lastSeq;
  return `id: ${lastMissedSeq}\nevent: ${GAP_EVENT}\ndata: ${JSON.stringify(gap)}\n\n${texts.join('')}`;
}
