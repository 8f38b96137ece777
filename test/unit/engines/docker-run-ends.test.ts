/** The end of a run reaches its listeners, whatever the engine leaves unanswered. */
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, expect, test, vi, type Mock } from 'vitest';
import type { DockerClient } from '../../../src/docker/docker-client.ts';
import type { InstanceId } from '../../../src/domain/kernel/ids.ts';
import { makeRunEnds, type RunEnds } from '../../../src/engines/docker/container/run-ends.ts';

const id = 'notebook-00000000-0000-4000-8000-000000000000' as InstanceId;
const run = { Id: 'a', State: { Running: true, StartedAt: '2026-01-01T00:00:00Z' } };

type Inspect = () => Promise<{ State: { Running: boolean; StartedAt?: string } }>;
let inspect: Mock<Inspect>;
let ends: RunEnds;
beforeEach(() => {
  vi.useFakeTimers();
  inspect = vi.fn<Inspect>();
  const docker = { getEvents: async () => new PassThrough(), getContainer: () => ({ inspect }) };
  const client = {
    docker,
    call: (signal: AbortSignal, request: (signal: AbortSignal) => unknown) => request(signal),
  } as unknown as DockerClient;
  ends = makeRunEnds({ client, installation: 'ours', onLost: () => {} });
});
afterEach(() => {
  void ends.stop();
  vi.useRealTimers();
});

test('an end that the engine did not answer about is reported by a later inspect', async () => {
  inspect.mockRejectedValueOnce(new Error('the engine is busy')).mockResolvedValue({ State: { Running: false } });
  const listener = vi.fn<() => void>();
  ends.onEnd(id, run as never, listener);
  await vi.advanceTimersByTimeAsync(1);
  expect(inspect).toHaveBeenCalledOnce();
  expect(listener).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(listener).toHaveBeenCalledOnce();
});

test('a run that goes on is inspected once', async () => {
  inspect.mockResolvedValue(run);
  const listener = vi.fn<() => void>();
  ends.onEnd(id, run as never, listener);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(inspect).toHaveBeenCalledOnce();
  expect(listener).not.toHaveBeenCalled();
});
