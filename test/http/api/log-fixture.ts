/**
 * A listening API over real control with simulated instances that print, and readers of their logs.
 */
import { onTestFinished } from 'vitest';
import { makeClient, type Client } from '../../../src/contract/client.ts';
import type { ApiOptions } from '../../../src/edge/http/api.ts';
import { hasStatus, makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';
import { openTempStore } from '../../fixtures/store.ts';
import { openStream, type RawStream } from './event-fixture.ts';
import { startEdge, type BareApi } from './harness.ts';

export interface LogFixture {
  world: World;
  api: BareApi;
  token: string;
  client: Client;
  launched: (script: string, ...then: string[]) => Promise<string>;
  logs: (body: object, token?: string) => ReturnType<BareApi['post']>;
  stream: (query: Record<string, string>, headers?: Record<string, string>) => Promise<RawStream>;
}

export async function logFixture(more: Partial<ApiOptions> = {}, options: WorldOptions = {}): Promise<LogFixture> {
  const { store, remove } = await openTempStore();
  const world = await makeWorld(store, options);
  const api = await startEdge(world.running.control, more);
  onTestFinished(async () => {
    await api.stop();
    await remove();
  });
  const { accessToken: token } = await makeClient({ baseUrl: api.baseUrl }).login({
    username: 'admin',
    password: 'correct horse',
  });
  return {
    world,
    api,
    token,
    client: makeClient({ baseUrl: api.baseUrl, credential: { kind: 'token', token } }),
    async launched(script, ...then) {
      const request = world.launchInput();
      const instanceConfiguration = { ...request.instanceConfiguration, initScript: script };
      const { instanceId } = await world.running.control.instances.launch(
        world.caller,
        { ...request, instanceConfiguration },
        null,
      );
      await world.until(instanceId, hasStatus('Running', ...then));
      return instanceId;
    },
    logs: (body, by = token) => api.post('/instance/logs', body, { token: by }),
    stream: (query, headers = {}) =>
      openStream(api.port, {
        path: `/api/instance/logs?${new URLSearchParams(query)}`,
        headers: { authorization: `Bearer ${token}`, ...headers },
      }),
  };
}

/** Init script that prints six lines on the console. */
export const SAYS = Array.from({ length: 6 }, (_, n) => `# berth-sim: say after ${(n + 1) * 100}ms line ${n}\n`).join(
  '',
);

export interface Message {
  id: string | null;
  event: string;
  data: Record<string, unknown>;
}

export const messagesIn = (stream: RawStream): Message[] =>
  stream
    .text()
    .split('\n\n')
    .slice(0, -1)
    .flatMap((block) => {
      const [, id, event, data] = /^(?:retry: \d+\n)?(?:id: (.+)\n)?event: (.+)\ndata: (.+)$/.exec(block) ?? [];
      return data === undefined ? [] : [{ id: id ?? null, event: event ?? '', data: JSON.parse(data) }];
    });
export const linesIn = (stream: RawStream): string[] =>
  messagesIn(stream).flatMap(({ event, data }) => (event === 'line' ? [String(data['text'])] : []));
