import { describe, expect, it } from 'vitest';
import { randomUUID } from 'node:crypto';
import { instanceIdOf, type InstanceId } from '../../../src/domain/kernel/ids.ts';
import { createOptions } from '../../../src/engines/docker/container/create-options.ts';
import {
  chooseProcessors,
  listProcessors,
  makeProcessors,
  parseProcessors,
} from '../../../src/engines/docker/container/processors.ts';
import { lxcfsPairs } from '../../../src/engines/docker/container/shown-sizes.ts';
import { hostFacts } from './host-facts.ts';
import { specOf } from './simulated-spec.ts';

const host = [0, 1, 2, 3];
const newId = (): InstanceId => instanceIdOf(randomUUID());
const choose = (cores: number, more: { others?: number[][]; current?: number[] } = {}): number[] | null =>
  chooseProcessors({ id: newId(), cpuMilli: cores * 1_000 }, { host, others: [], current: [], ...more });

describe('processors of an instance', () => {
  it('are read and written in the form of the kernel', () => {
    expect(parseProcessors('0-2,5,7-8\n')).toEqual([0, 1, 2, 5, 7, 8]);
    expect(parseProcessors('')).toEqual([]);
    expect(listProcessors([1, 3])).toBe('1,3');
  });

  it('are as many as the type has', () => {
    expect(choose(3)).toHaveLength(3);
  });

  it.each([0.5, 1.5, 4, 64])('are all of the host with %d of its 4', (cores) => {
    expect(choose(cores)).toBeNull();
  });

  it('are those that the fewest running instances have', () => {
    expect(choose(2, { others: [[0, 1], [1], [2]] })).toContain(3);
    expect(choose(1, { others: [[0], [1], [3]] })).toEqual([2]);
    expect(choose(1, { others: [[0], [1], [2], [3], [0], [1], [3]] })).toEqual([2]);
  });

  it('stay where they are while others are as busy', () => {
    for (const current of [[0], [1], [2], [3]]) expect(choose(1, { current })).toEqual(current);
    expect(choose(1, { current: [2], others: [[2]] })).not.toEqual([2]);
  });

  it('leave those that the host lost', () => {
    expect(host).toEqual(expect.arrayContaining(choose(2, { current: [6, 7] }) ?? []));
  });

  it('are spread evenly by any number of instances', () => {
    const processors = makeProcessors();
    const facts = hostFacts({ processors: host });
    const ids = Array.from({ length: 40 }, newId);
    const chosen = ids.map((id) => processors.choose({ ...specOf('sized'), id, cpuMilli: 2_000 }, facts));
    const counts = host.map((one) => chosen.filter((list) => parseProcessors(list).includes(one)).length);
    expect(counts).toEqual([20, 20, 20, 20]);
  });

  it('are those of the running containers after a restart of Berth, and free after a stop', () => {
    const processors = makeProcessors();
    const facts = hostFacts({ processors: [0, 1] });
    const [first, second] = [newId(), newId()];
    const running = (CpusetCpus: string) => ({ State: { Running: true }, HostConfig: { CpusetCpus } }) as never;
    processors.observe(first, running('0'));
    const spec = { ...specOf('sized'), id: second, cpuMilli: 1_000 };
    expect(processors.choose(spec, facts)).toBe('1');
    processors.observe(second, running('1'));
    processors.observe(first, null);
    expect(processors.choose({ ...spec, id: newId() }, facts)).toBe('0');
  });

  it('are all of the host again for an instance that had some and fits no set', () => {
    const facts = hostFacts({ processors: [0, 1] });
    expect(makeProcessors().choose({ ...specOf('sized'), cpuMilli: 2_000 }, facts, '1')).toBe('0,1');
  });

  it('are all of the host where the engine refused some, until the host has others', () => {
    const processors = makeProcessors();
    const spec = { ...specOf('sized'), cpuMilli: 1_000 };
    processors.refuse(hostFacts({ processors: [0, 1] }));
    expect(processors.choose(spec, hostFacts({ processors: [0, 1] }))).toBe('');
    expect(processors.choose(spec, hostFacts({ processors: [0, 1, 2] }))).not.toBe('');
    expect(processors.choose(spec, hostFacts({ processors: null }))).toBe('');
  });

  it('are in the request to the engine', () => {
    const context = { installation: 'i', network: 'n', controlFolder: '/c', gpuIds: [], host: hostFacts() };
    const request = createOptions(specOf('sized'), { ...context, processors: '1' });
    expect(request.HostConfig?.CpusetCpus).toBe('1');
    expect(createOptions(specOf('sized'), { ...context, processors: '' }).HostConfig).not.toHaveProperty('CpusetCpus');
  });
});

describe('mounts of lxcfs', () => {
  const mounted = (device: string, ...names: string[]): string =>
    [
      '24 1 0:22 / /proc rw,nosuid - proc proc rw',
      ...names.map((name) => `30 24 ${device} /proc/${name} /proc/${name} ro,nosuid - fuse.lxcfs lxcfs rw,user_id=0`),
      '31 24 0:5 /null /proc/kcore rw,nosuid - tmpfs tmpfs rw',
      '',
    ].join('\n');
  const all = ['cpuinfo', 'loadavg', 'meminfo', 'stat', 'swaps', 'uptime'];
  const lxcfs = { folder: '/run/l/proc', device: '0:52' };

  it('are made where they are missing', () => {
    expect(lxcfsPairs(mounted('0:52'), lxcfs)).toEqual(all.map((name) => [`/run/l/proc/${name}`, `/proc/${name}`]));
    expect(lxcfsPairs(mounted('0:52', ...all.slice(1)), lxcfs)).toEqual([['/run/l/proc/cpuinfo', '/proc/cpuinfo']]);
  });

  it('are replaced when they are of an earlier lxcfs', () => {
    expect(lxcfsPairs(mounted('0:51', ...all), lxcfs)).toHaveLength(all.length);
    expect(lxcfsPairs(mounted('0:52', ...all), lxcfs)).toEqual([]);
  });

  it('are removed without a lxcfs', () => {
    expect(lxcfsPairs(mounted('0:51', 'meminfo'), { whyNot: 'it is away' })).toEqual([['', '/proc/meminfo']]);
    expect(lxcfsPairs(mounted('0:51'), { whyNot: 'it is away' })).toEqual([]);
  });
});
