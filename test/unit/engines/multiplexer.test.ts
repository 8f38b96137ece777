/** Framing, flow control and ends of the relay's protocol, without a connection. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  frame,
  kinds,
  makeFrameReader,
  Multiplexer,
  PAYLOAD_BYTES,
  ProtocolError,
  WINDOW_BYTES,
} from '../../../src/engines/kubernetes/network/multiplexer.mjs';

interface End {
  multiplexer: Multiplexer;
  messages: unknown[];
}

/** Bytes under way in one direction are bounded as in a pipe, and arrive in pieces of this size. */
function makePair(pieceBytes: number, pipeBytes = 64 * 1024): [End, End] {
  const makeEnd = (peer: () => End): End => {
    const queue: Buffer[] = [];
    let queuedBytes = 0;
    let isFull = false;
    const deliver = (): void => {
      const bytes = Buffer.concat(queue.splice(0));
      queuedBytes = 0;
      for (let at = 0; at < bytes.length; at += pieceBytes)
        peer().multiplexer.receive(bytes.subarray(at, at + pieceBytes));
      if (!isFull) return;
      isFull = false;
      end.multiplexer.drained();
    };
    const end: End = {
      messages: [],
      multiplexer: new Multiplexer({
        write(bytes) {
          if (queue.push(bytes) === 1) setImmediate(deliver);
          queuedBytes += bytes.length;
          isFull = queuedBytes >= pipeBytes;
          return !isFull;
        },
        onMessage: (message) => void end.messages.push(message),
      }),
    };
    return end;
  };
  const near: End = makeEnd(() => far);
  const far: End = makeEnd(() => near);
  return [near, far];
}

const openBoth = ([near, far]: [End, End], id: number): [Duplex, Duplex] => [
  near.multiplexer.open(id),
  far.multiplexer.open(id),
];

const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await nextTurn();
};

describe('frames', () => {
  const frames = fc.array(
    fc.record({
      kind: fc.constantFrom(...Object.values(kinds)),
      id: fc.integer({ min: 0, max: 0xffff_ffff }),
      payload: fc.uint8Array({ maxLength: 300 }),
    }),
    { maxLength: 20 },
  );

  test('are read as they were written, in pieces of any size', () => {
    fc.assert(
      fc.property(frames, fc.integer({ min: 1, max: 700 }), (written, piece) => {
        const read: unknown[] = [];
        const take = makeFrameReader((kind, id, payload) => void read.push({ kind, id, payload: [...payload] }));
        const bytes = Buffer.concat(written.map(({ kind, id, payload }) => frame(kind, id, Buffer.from(payload))));
        for (let at = 0; at < bytes.length; at += piece) take(bytes.subarray(at, at + piece));
        expect(read).toEqual(written.map(({ kind, id, payload }) => ({ kind, id, payload: [...payload] })));
      }),
    );
  });

  test.for([
    { name: 'of an unknown kind', bytes: frame(5, 1) },
    { name: 'too long', bytes: frame(kinds.data, 1, Buffer.alloc(PAYLOAD_BYTES + 1)) },
    { name: 'of text', bytes: Buffer.from('sh: node: not found\n') },
  ])('$name are refused', ({ bytes }) => {
    expect(() => makeFrameReader(() => {})(bytes)).toThrow(ProtocolError);
  });
});

describe('streams', () => {
  test('arrive whole and apart, each direction with its own end', async () => {
    const sizes = fc.array(fc.tuple(fc.integer({ min: 0, max: 300_000 }), fc.integer({ min: 0, max: 300_000 })), {
      minLength: 1,
      maxLength: 5,
    });
    await fc.assert(
      fc.asyncProperty(sizes, fc.integer({ min: 500, max: 70_000 }), async (lengths, piece) => {
        const pair = makePair(piece);
        await Promise.all(
          lengths.map(async ([there, back], at) => {
            const [near, far] = openBoth(pair, at + 1);
            const [first, second] = [randomBytes(there), randomBytes(back)];
            const received = buffer(far);
            near.end(first);
            // The other direction is open after the end of this one.
            expect((await received).equals(first)).toBe(true);
            const answer = buffer(near);
            far.end(second);
            expect((await answer).equals(second)).toBe(true);
          }),
        );
        await turns(5);
        expect(pair.map(({ multiplexer }) => multiplexer.size)).toEqual([0, 0]);
      }),
      { numRuns: 25 },
    );
  });

  test('a reader that takes nothing holds back its own writer at the window, and no other', async () => {
    const pair = makePair(10_000);
    const [writer, unread] = openBoth(pair, 1);
    let sent = 0;
    const write = (): void => {
      while (sent < 4 * WINDOW_BYTES && writer.write(Buffer.alloc(10_000), () => (sent += 10_000)));
    };
    writer.on('drain', write);
    write();
    await turns(200);
    expect(sent).toBeLessThanOrEqual(WINDOW_BYTES);
    const [other, otherEnd] = openBoth(pair, 2);
    const received = buffer(otherEnd);
    const bytes = randomBytes(3 * WINDOW_BYTES);
    other.end(bytes);
    expect((await received).equals(bytes)).toBe(true);
    // It goes on when the reader does.
    unread.resume();
    await expect.poll(() => sent).toBeGreaterThan(3 * WINDOW_BYTES);
  });

  test('send in turn while the connection is full', async () => {
    const pair = makePair(100_000, 1);
    const received: number[] = [];
    pair[0].multiplexer.send({ fills: 'the connection' });
    for (const id of [1, 2, 3]) {
      const [writer, reader] = openBoth(pair, id);
      reader.on('data', () => received.push(id));
      writer.end(Buffer.alloc(3 * PAYLOAD_BYTES));
    }
    await expect.poll(() => received.length).toBe(9);
    expect(received).toEqual([1, 2, 3, 1, 2, 3, 1, 2, 3]);
  });

  test('a destroyed end resets the other, and frames that cross the reset are dropped', async () => {
    const pair = makePair(10_000);
    const [near, far] = openBoth(pair, 1);
    const errors = once(far, 'error');
    const closed = once(far.resume(), 'close').catch(() => {});
    near.destroy();
    far.write('crosses');
    expect(await errors).toMatchObject([{ code: 'ECONNRESET' }]);
    await closed;
    await turns(5);
    expect(pair.map(({ multiplexer }) => multiplexer.size)).toEqual([0, 0]);
  });

  test('a message arrives before the data that follows it', async () => {
    const [near, far] = makePair(7);
    const stream = near.multiplexer.open(2);
    near.multiplexer.send({ accepted: 2 });
    stream.write('hello');
    await expect.poll(() => far.messages).toEqual([{ accepted: 2 }]);
    // The data came for a stream that nobody had opened here, and nothing keeps it.
    expect(far.multiplexer.size).toBe(0);
  });

  test('end with their multiplexer', async () => {
    const [near] = makePair(1_000);
    const stream = near.multiplexer.open(1);
    const closed = once(stream, 'close');
    near.multiplexer.end();
    await closed;
    expect(near.multiplexer.open(3).destroyed).toBe(true);
  });
});

describe('a peer', () => {
  const receive = (...frames: Buffer[]): (() => void) => {
    const multiplexer = new Multiplexer({ write: () => true, onMessage: () => {} });
    multiplexer.open(1);
    return () => {
      for (const bytes of frames) multiplexer.receive(bytes);
    };
  };
  const data = frame(kinds.data, 1, Buffer.alloc(PAYLOAD_BYTES));
  const filling = Array.from({ length: Math.ceil(WINDOW_BYTES / PAYLOAD_BYTES) + 1 }, () => data);

  test.for([
    { name: 'sends beyond the window', frames: filling },
    { name: 'sends after the end', frames: [frame(kinds.end, 1), data] },
    { name: 'widens the window', frames: [frame(kinds.window, 1, Buffer.from([0, 0, 0, 1]))] },
    { name: 'sends a message that is not JSON', frames: [frame(kinds.message, 0, Buffer.from('{'))] },
    { name: 'sends a message that is too long', frames: [frame(kinds.message, 0, Buffer.alloc(20_000))] },
  ])('that $name breaks the protocol', ({ frames }) => {
    expect(receive(...frames)).toThrow(ProtocolError);
  });

  test('may still send for a stream that has ended here', () => {
    expect(receive(frame(kinds.data, 9, Buffer.from('late')), frame(kinds.reset, 9))).not.toThrow();
  });
});
