/**
 * A listening API over real control on either database, with accounts that get events, and raw
 * readers of their streams.
 */
import { request } from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { onTestFinished } from 'vitest';
import { makeClient } from '../../../src/contract/client.ts';
import type { ApiOptions } from '../../../src/edge/http/api.ts';
import { appendEvent, latestSeq } from '../../../src/store/tables/events.ts';
import type { Store } from '../../../src/store/store.ts';
import { makeWorld, type World } from '../../fixtures/control.ts';
import { startEdge, type BareApi } from './harness.ts';

export interface Someone {
  accountId: string;
  token: string;
  /** Number of the last event before the test. */
  base: number;
  /** Appends events concurrently; every fifth also has a transaction that is rolled back. */
  happens: (times: number, data?: object) => Promise<void>;
  /** Appends many events in one commit. */
  happenTogether: (times: number, data?: object) => Promise<void>;
}

export interface EventFixture {
  world: World;
  api: BareApi;
  admin: Someone;
  another: () => Promise<Someone>;
}

export async function eventFixture(store: Store, more: Partial<ApiOptions> = {}): Promise<EventFixture> {
  const world = await makeWorld(store, { start: false });
  const api = await startEdge(world.running.control, more);
  onTestFinished(() => api.stop());
  const someone = async (accountId: string, username: string, password: string): Promise<Someone> => {
    const { accessToken: token } = await makeClient({ baseUrl: api.baseUrl }).login({ username, password });
    const event = { accountId, atMs: 5, kind: 'test.happened', subjectId: accountId };
    return {
      accountId,
      token,
      base: await latestSeq(store.read, accountId),
      async happens(times, data = {}) {
        const works = Array.from({ length: times }, async (_, n) => {
          if (n % 5 === 0)
            await store
              .write(async (tx) => {
                await appendEvent(tx, { ...event, kind: 'test.undone', data });
                throw new Error('undone');
              })
              .catch(() => {});
          await store.write((tx) => appendEvent(tx, { ...event, data: { ...data, n } }));
        });
        await Promise.all(works);
      },
      happenTogether: (times, data = {}) =>
        store.write(async (tx) => {
          for (let n = 0; n < times; n++) await appendEvent(tx, { ...event, data: { ...data, n } });
        }),
    };
  };
  let accounts = 0;
  return {
    world,
    api,
    admin: await someone(world.caller.accountId, 'admin', 'correct horse'),
    async another() {
      accounts += 1;
      const { accountId, username } = await world.account(`user-${accounts}`);
      return someone(accountId, username, 'battery staple');
    },
  };
}

export interface RawStream {
  status: number;
  headers: IncomingHttpHeaders;
  /** All text received so far. */
  text: () => string;
  /** Waits for the end of the stream: complete, or cut. */
  ended: Promise<'end' | 'cut'>;
  /** Stops or resumes reading the socket. */
  pause: () => void;
  resume: () => void;
  close: () => void;
}

/** Opens a stream, returns its head and keeps reading. */
export async function openStream(
  port: number,
  { path = '/api/events', headers = {} }: { path?: string; headers?: Record<string, string> },
): Promise<RawStream> {
  const reply = await new Promise<IncomingMessage>((resolve, reject) => {
    request({ host: '127.0.0.1', port, path, headers, agent: false }, resolve).on('error', reject).end();
  });
  let text = '';
  reply.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  const ended = new Promise<'end' | 'cut'>((resolve) => {
    reply.on('end', () => resolve('end'));
    reply.on('error', () => resolve('cut'));
    reply.on('close', () => resolve(reply.complete ? 'end' : 'cut'));
  });
  const stream: RawStream = {
    status: reply.statusCode ?? 0,
    headers: reply.headers,
    text: () => text,
    ended,
    pause: () => void reply.pause(),
    resume: () => void reply.resume(),
    close: () => void reply.destroy(),
  };
  onTestFinished(stream.close);
  return stream;
}

export const bearer = ({ token }: Pick<Someone, 'token'>): Record<string, string> => ({
  authorization: `Bearer ${token}`,
});

/** Messages with data in a stream's text. */
export function messagesIn(text: string): { id: number; event: string; data: Record<string, unknown> }[] {
  return text
    .split('\n\n')
    .slice(0, -1)
    .flatMap((block) => {
      const [, id, event, data] = /^id: (\d+)\nevent: (.+)\ndata: (.+)$/.exec(block) ?? [];
      return data === undefined ? [] : [{ id: Number(id), event: event ?? '', data: JSON.parse(data) }];
    });
}

/** The last `id` in a stream's text, which is its position. */
export const lastIdIn = (text: string): number => Number([...text.matchAll(/^id: (\d+)$/gm)].at(-1)?.[1]);
