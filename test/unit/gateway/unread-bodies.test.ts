/** Bodies that no instance gets: read for a while, or while they keep coming. */
import { EventEmitter } from 'node:events';
import { Socket } from 'node:net';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { drainOrCut } from '../../../src/edge/gateway/answers.ts';
import type { ClientRequest } from '../../../src/edge/gateway/client-exchange.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

class Upload extends EventEmitter implements ClientRequest {
  readonly httpVersion = '1.1';
  readonly rawHeaders = [];
  readonly headers = {};
  readonly socket = new Socket();
  readonly complete = false;
  destroyed = false;
  pause(): void {}
  resume(): void {}
  destroy(): void {
    this.destroyed = true;
  }
}

test.each([
  [true, 'comes', false],
  [true, 'stalls', true],
  [false, 'comes', true],
])('read while it comes: %s; a body that %s for a minute is cut: %s', (whileItComes, how, cut) => {
  const upload = new Upload();
  drainOrCut(upload, whileItComes);
  for (let second = 0; second < 60; second += 1) {
    if (how === 'comes') upload.emit('data', Buffer.from('x'));
    vi.advanceTimersByTime(1_000);
  }
  expect(upload.destroyed).toBe(cut);
});
