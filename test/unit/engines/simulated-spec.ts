/** Specs for tests of the simulation. */
import { createHash } from 'node:crypto';
import { instanceIdOf, userId } from '../../../src/domain/kernel/ids.ts';
import type { EngineSpec } from '../../../src/engines/contract.ts';

export const imageRef = 'registry.example/tiny:1';

/** A fixed uuid for a word. */
export function uuidOf(word: string): string {
  const hex = createHash('sha256').update(word).digest('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join('-');
}

export function specOf(
  word: string,
  more: Partial<EngineSpec> & { initScript?: string; start?: string } = {},
): EngineSpec {
  const { initScript, start = '#!/bin/sh\n', ...overrides } = more;
  const id = instanceIdOf(uuidOf(word));
  const initFile = initScript === undefined ? [] : [{ name: 'init-script', content: initScript, mode: 0o644 }];
  return {
    id,
    ownerId: userId(uuidOf('owner')),
    generation: 1,
    hostname: `${id}-0`,
    imageRef,
    cpuMilli: 1_000,
    memoryMiB: 1_024,
    pidsLimit: 100,
    gpus: 0,
    mounts: [],
    nodePorts: [],
    nodePortAddress: '127.0.0.1',
    files: [{ name: 'start', content: start, mode: 0o755 }, ...initFile],
    ...overrides,
  };
}

export const noSignal = (): AbortSignal => new AbortController().signal;
