/** Pure parts of the Docker engine: requests, and parsing of answers. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EngineFault } from '../../../src/domain/regions/engine-fault.ts';
import { instanceIdOf, userId } from '../../../src/domain/kernel/ids.ts';
import { endpointOf } from '../../../src/docker/docker-client.ts';
import { createOptions } from '../../../src/engines/docker/container/create-options.ts';
import { chooseGpus, gpusOf } from '../../../src/engines/docker/container/gpus.ts';
import {
  abortFault,
  faultOf,
  isUntracked,
  isNameTaken,
  isNetworkGone,
  portTakenText,
  takenPort,
} from '../../../src/docker/faults.ts';
import { linesOf, makeDemultiplexer } from '../../../src/docker/streams.ts';
import {
  checkPool,
  defaultPool,
  freeSubnets,
  rangesMeeting,
  subnetsOfRoutes,
} from '../../../src/engines/docker/network/subnets.ts';
import type { EngineSpec } from '../../../src/engines/contract.ts';
import { labels } from '../../../src/engines/labels.ts';
import { hostFacts } from './host-facts.ts';

const answer = (statusCode: number, message: string): Error =>
  Object.assign(new Error(`(HTTP code ${statusCode}) - ${message}`), { statusCode, json: { message } });

describe('faults', () => {
  it.each([
    [404, 'No such image: nothing:1', 'not_found', true],
    [404, 'No such container: berth-x', 'not_found', false],
    [404, 'page not found', 'rejected', false],
    [409, 'You cannot remove a running container', 'busy', true],
    [500, 'something nobody has ever seen', 'rejected', true],
    [503, 'starting up', 'unreachable', true],
    [500, 'driver failed: Bind for 127.0.0.1:30001 failed: port is already allocated', 'busy', true],
    [400, 'Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available', 'no_capacity', false],
    [500, 'no available IPv4 addresses on this network', 'no_capacity', true],
    [400, 'invalid mount config for type "bind": bind source path does not exist: /srv/x', 'rejected', true],
    [403, 'not by you', 'denied', false],
    [403, 'endpoint with name berth-x already exists in network berth-y', 'busy', true],
    [500, 'adding interface veth1 to bridge br-1 failed: could not find bridge br-1: route ip+net', 'busy', true],
    [500, 'failed to start shim: mkdir /run/containerd/task/moby/a: file exists: unknown', 'busy', true],
    [
      500,
      'failed to update store for object type *libnetwork.endpoint: open : no such file or directory',
      'unreachable',
      true,
    ],
    [500, 'open : no such file or directory', 'unreachable', true],
  ])('%d "%s" is %s', (status, sentence, kind, retry) => {
    expect(faultOf(answer(status, sentence))).toMatchObject({ kind, retry });
  });

  it.each([
    ['No such image: nothing:1', 'imageMissing'],
    ['invalid reference format', 'imageMissing'],
    ['write /var/lib/docker/overlay2/x/diff/y: no space left on device', 'diskFull'],
    ['OCI runtime exec failed: exec failed: open /dev/ptmx: no space left on device: unknown', undefined],
    ['invalid mount config for type "bind": bind source path does not exist: /srv/x', 'badMount'],
    [
      'error mounting "/srv/x" to rootfs at "/y": not a directory: unknown: Are you trying to mount a directory onto a file (or vice-versa)?',
      'badMount',
    ],
    ['Bind for 127.0.0.1:30001 failed: port is already allocated', 'portTaken'],
    ['fork/exec /usr/bin/containerd-shim: cannot allocate memory', 'outOfMemory'],
    ['Minimum memory limit allowed is 6MB', 'outOfMemory'],
    ['Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available', 'hostTooSmall'],
    ['could not select device driver "nvidia" with capabilities: [[gpu]]', 'gpuMissing'],
    ['OCI runtime create failed: exec format error', 'imageUnfit'],
    ['OCI runtime create failed: exec: "/bin/sh": stat /bin/sh: no such file or directory', 'imageUnfit'],
    ['something nobody has ever seen', undefined],
  ])('"%s" has the reason %s', (sentence, reason) => {
    expect(faultOf(answer(500, sentence)).reason).toBe(reason);
  });

  it('tell a host without terminals from one without disk space', () => {
    const sentence = 'OCI runtime exec failed: exec failed: open /dev/ptmx: no space left on device: unknown';
    expect(faultOf(answer(500, sentence))).toMatchObject({
      kind: 'no_capacity',
      message: expect.stringContaining('no terminal is left'),
    });
  });

  it('are unreachable without an answer, and a fault stays unchanged', () => {
    for (const error of [
      Object.assign(new Error('connect ENOENT'), { code: 'ENOENT' }),
      Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }),
      AbortSignal.abort().reason,
      new Error('socket hang up'),
      'nothing',
    ]) {
      expect(faultOf(error)).toMatchObject({ kind: 'unreachable', retry: true });
    }
    const fault = new EngineFault('busy', 'x', { retry: true });
    expect(faultOf(fault)).toBe(fault);
  });

  it('contain host folders and long ids only in the cause', () => {
    const id = 'a'.repeat(12) + 'b'.repeat(52);
    const error = answer(500, `error mounting "/var/lib/docker/overlay2/x" of ${id}\nmore`);
    const fault = faultOf(error);
    expect(fault.message).toBe(
      `the container engine refused the request: error mounting "(a path)" of ${'a'.repeat(12)} more`,
    );
    expect(fault.cause).toBe(error);
  });

  it.each([
    'driver failed programming external connectivity: Bind for 0.0.0.0:30001 failed: port is already allocated',
    'Error starting userland proxy: listen tcp4 0.0.0.0:30001: bind: address already in use',
    'failed to bind host port for 0.0.0.0:30001:172.18.0.2:22/tcp: address already in use',
    'rootlessport listen tcp 0.0.0.0:30001: bind: address already in use',
  ])('"%s" names the port', (sentence) => {
    expect(takenPort(faultOf(answer(500, sentence)), [30_000, 30_001])).toBe(30_001);
    expect(takenPort(faultOf(answer(500, 'out of luck at 30001')), [30_001])).toBeNull();
  });

  it('distinguish a port held by the engine from one held by another program', () => {
    const said = (sentence: string): string => portTakenText(30_001, faultOf(answer(500, sentence)));
    expect(said('Bind for 0.0.0.0:30001 failed: port is already allocated')).toMatch(
      /30001 .*restart of the engine frees it/,
    );
    expect(said('listen tcp4 0.0.0.0:30001: bind: address already in use')).toBe(
      'node port 30001 is taken by another program of the host',
    );
  });

  it('are unreachable for an aborted call, whose effect is unknown', () => {
    expect(abortFault(AbortSignal.abort())).toMatchObject({ kind: 'unreachable', retry: true });
  });

  it('distinguish a taken name and a missing network', () => {
    const taken = 'Conflict. The container name "/berth-x" is already in use by container "1234"';
    expect(isNameTaken(faultOf(answer(409, taken)))).toBe(true);
    expect(isNameTaken(faultOf(answer(409, 'removal of container x is already in progress')))).toBe(false);
    expect(isUntracked(faultOf(answer(500, 'task 487ea3d767f2: already exists: unknown')))).toBe(true);
    expect(isUntracked(faultOf(answer(500, 'id already in use')))).toBe(true);
    expect(isUntracked(faultOf(answer(500, 'driver failed: address already in use')))).toBe(false);
    expect(isNetworkGone(faultOf(answer(404, 'network berth-1-2 not found')))).toBe(true);
    expect(isNetworkGone(faultOf(answer(400, 'network berth-1-2 is ambiguous (2 matches found on name)')))).toBe(true);
    expect(isNetworkGone(faultOf(answer(404, 'No such container: x')))).toBe(false);
  });
});

describe('create options', () => {
  const host = hostFacts({ openFiles: 20_000, perUser: [{ name: 'sigpending', limit: 500 }] });
  const id = instanceIdOf('00000000-0000-4000-8000-000000000001');
  const spec: EngineSpec = {
    id,
    ownerId: userId('owner'),
    generation: 3,
    hostname: `${id}-0`,
    imageRef: 'some:1',
    cpuMilli: 1500,
    memoryMiB: 1024,
    pidsLimit: 100,
    gpus: 0,
    rootDiskGB: 10,
    mounts: [{ source: '/srv/data', target: '/root/dataDisk', readOnly: false }],
    nodePorts: [{ port: 22, nodePort: 30_022 }],
    nodePortAddress: '192.0.2.1',
    files: [],
  };
  const placement = { installation: 'here', network: 'net', controlFolder: '/srv/state/x', gpuIds: [], host };

  it('apply the limits of the type, and grant no further rights', () => {
    expect(createOptions(spec, placement).HostConfig).toMatchObject({
      Memory: 1024 * 1024 * 1024,
      MemorySwap: 1024 * 1024 * 1024,
      NanoCpus: 1_500_000_000,
      PidsLimit: 100,
      ShmSize: 512 * 1024 * 1024,
      CapDrop: ['NET_RAW', 'MKNOD'],
      SecurityOpt: ['no-new-privileges', expect.stringMatching(/^seccomp=/)],
      RestartPolicy: { Name: 'no' },
      PortBindings: { '22/tcp': [{ HostIp: '192.0.2.1', HostPort: '30022' }] },
      Ulimits: [
        { Name: 'nofile', Soft: 20_000, Hard: 20_000 },
        { Name: 'sigpending', Soft: 500, Hard: 500 },
      ],
    });
    const { HostConfig } = createOptions(spec, placement);
    expect(HostConfig?.Privileged).toBeUndefined();
    expect(HostConfig?.Mounts).toMatchObject([
      { Source: '/srv/state/x', Target: '/etc/berth', ReadOnly: true, BindOptions: { Propagation: 'rprivate' } },
      { Source: '/srv/data', Target: '/root/dataDisk', ReadOnly: false },
    ]);
  });

  it('use only features of the host', () => {
    expect(createOptions(spec, placement).HostConfig).not.toHaveProperty('StorageOpt');
    expect(createOptions(spec, placement).HostConfig).not.toHaveProperty('BlkioDeviceReadBps');
    expect(createOptions(spec, placement).HostConfig).not.toHaveProperty('DeviceRequests');
    const rich = { ...placement, host: { ...host, rootDiskLimit: true, gpuDriver: 'nvidia' as const } };
    expect(createOptions(spec, rich).HostConfig?.StorageOpt).toEqual({ size: '10G' });
    for (const without of [rich, placement])
      expect(createOptions(spec, without).Env).toEqual(
        expect.arrayContaining(['NVIDIA_VISIBLE_DEVICES=void', 'AMD_VISIBLE_DEVICES']),
      );
    const withGpu = createOptions({ ...spec, gpus: 1 }, { ...rich, gpuIds: ['GPU-1'] });
    expect(withGpu.HostConfig?.DeviceRequests).toEqual([
      { Driver: 'nvidia', DeviceIDs: ['GPU-1'], Capabilities: [['gpu']] },
    ]);
    expect(withGpu.Env).toContain('NVIDIA_VISIBLE_DEVICES=GPU-1');
    const byCdi = createOptions(spec, { ...rich, host: { ...rich.host, gpuDriver: 'cdi' }, gpuIds: ['GPU-1'] });
    expect(byCdi.HostConfig?.DeviceRequests).toEqual([{ Driver: 'cdi', DeviceIDs: ['nvidia.com/gpu=GPU-1'] }]);
    for (const { Env } of [withGpu, byCdi, createOptions(spec, rich)])
      expect(Env).toEqual(expect.arrayContaining(['NVIDIA_GPU_MEMORY_REQUEST', 'NVIDIA_GPU_MEMORY_LIMIT']));
    expect(byCdi.Env).toContain('NVIDIA_VISIBLE_DEVICES=void');
    const podman = createOptions(spec, {
      ...placement,
      host: { ...host, podman: true, openFiles: null, hasInit: false },
    });
    expect(podman.HostConfig).toMatchObject({ LogConfig: { Type: 'k8s-file' }, Init: false });
    expect(podman.HostConfig).not.toHaveProperty('Ulimits');
  });

  it.each([
    ['an image that asks for nothing', [], 'compute,utility'],
    ['parts of the driver', ['NVIDIA_DRIVER_CAPABILITIES=video,compute,display'], 'compute,video'],
    ['all parts', ['NVIDIA_DRIVER_CAPABILITIES=all'], 'compute,utility,video,graphics,compat32,ngx'],
    ['a display alone', ['NVIDIA_DRIVER_CAPABILITIES=display'], 'compute,utility'],
  ])('give %s an allowed subset of the driver, and no nodes that its variables ask for', (_, imageEnv, parts) => {
    const { Env } = createOptions(spec, { ...placement, host: { ...host, gpuDriver: 'nvidia' }, imageEnv });
    expect(Env).toContain(`NVIDIA_DRIVER_CAPABILITIES=${parts}`);
    expect(Env).toEqual(expect.arrayContaining(['NVIDIA_MOFED', 'NVIDIA_IMEX_CHANNELS', 'NVIDIA_GDRCOPY']));
  });

  it('write every label of Berth, if only empty, because an image may have labels of the same names', () => {
    const written = createOptions(spec, placement).Labels ?? {};
    expect(Object.keys(written).toSorted()).toEqual(Object.values(labels).toSorted());
    expect(written[labels.gpus]).toBe('');
  });

  it('read GPUs from the label; an empty label means none', () => {
    expect(gpusOf(createOptions({ ...spec, gpus: 2 }, { ...placement, gpuIds: ['a', 'b'] }).Labels ?? {})).toEqual([
      'a',
      'b',
    ]);
    expect(gpusOf({ [labels.gpus]: '' })).toEqual([]);
    expect(gpusOf({})).toEqual([]);
  });

  it('assign free GPUs first, and none of a running container', () => {
    const holders = [
      { ownerId: 'ann', ids: ['a'], running: true },
      { ownerId: 'ann', ids: ['b'], running: false },
    ];
    const choose = (count: number) => chooseGpus(count, ['a', 'b', 'c'], holders, { ownerId: 'ann', among: 'account' });
    expect(choose(1)).toEqual(['c']);
    expect(choose(2)).toEqual(['c', 'b']);
    expect(choose(3)).toBeNull();
  });
});

describe('subnets', () => {
  it('lie in the pool, overlap no used one, and are all found', () => {
    const pool = { cidr: '10.0.0.0/20', prefix: 24 };
    const taken = fc.uniqueArray(fc.integer({ min: 0, max: 15 }), { maxLength: 16 });
    fc.assert(
      fc.property(fc.string(), taken, (key, thirds) => {
        const found = [
          ...freeSubnets(
            pool,
            key,
            thirds.map((third) => `10.0.${third}.64/26`),
          ),
        ];
        const left = Array.from({ length: 16 }, (_, third) => third).filter((third) => !thirds.includes(third));
        expect(found.toSorted()).toEqual(left.map((third) => `10.0.${third}.0/24`).toSorted());
      }),
    );
  });

  it('number hundreds in the default pool, with spread first choices', () => {
    expect([...freeSubnets(defaultPool, 'x', ['fe80::/64', 'nonsense'])]).toHaveLength(512);
    const first = Array.from({ length: 100 }, (_, n) => freeSubnets(defaultPool, `account ${n}`, []).next().value);
    expect(new Set(first).size).toBeGreaterThan(80);
  });

  it('name the ranges that contain some of them', () => {
    const within = ['10.210.0.5', '10.211.3.0/24', '10.0.0.0/8', '0.0.0.0/0'];
    expect(rangesMeeting(defaultPool.cidr, [...within, '127.0.0.1', '10.212.0.0/16', '::1', 'fd00::/8'])).toEqual(
      within,
    );
  });

  it("include the host's direct ones in either byte order, and none behind a gateway", () => {
    const row = (...fields: string[]): string => `${fields.join('\t')}\t0\t0\t0\t`;
    const table = [
      row('Iface', 'Destination', 'Gateway', 'Flags', 'RefCnt', 'Use', 'Metric', 'Mask'),
      row('eth0', '00000000', '010200C0', '0003', '0', '0', '0', '00000000'),
      row('br-left', '005CD20A', '00000000', '0001', '0', '0', '0', '00FFFFFF'),
      row('vpn0', '0000000A', '015CD20A', '0003', '0', '0', '0', '000000FF'),
      row('docker0', '000011AC', '00000000', '0001', '0', '0', '0', '0000FFFF'),
      '',
    ].join('\n');
    expect(subnetsOfRoutes(table, true)).toEqual(['10.210.92.0/24', '172.17.0.0/16']);
    const big = row('br-left', '0AD25C00', '00000000', '0001', '0', '0', '0', 'FFFFFF00');
    expect(subnetsOfRoutes(big, false)).toEqual(['10.210.92.0/24']);
  });

  it('are refused with a remedy for an invalid pool', () => {
    checkPool(defaultPool);
    for (const [cidr, prefix] of [
      ['10.0.0.0/24', 16],
      ['10.0.0.0', 24],
      ['10.0.0.0/8', 30],
      ['300.0.0.0/8', 24],
      ['fd00::/8', 64],
    ] as const) {
      expect(() => checkPool({ cidr, prefix })).toThrow('try 10.210.0.0/15');
    }
  });
});

describe('streams', () => {
  const frame = (source: number, text: string): Buffer => {
    const header = Buffer.alloc(8);
    header[0] = source;
    header.writeUInt32BE(Buffer.byteLength(text), 4);
    return Buffer.concat([header, Buffer.from(text)]);
  };

  it('assemble frames cut anywhere, each to its own stream', () => {
    const frames = fc.array(fc.tuple(fc.constantFrom(1, 2), fc.string({ unit: 'binary' })));
    fc.assert(
      fc.property(frames, fc.integer({ min: 1, max: 20 }), (sent, size) => {
        const bytes = Buffer.concat(sent.map(([source, text]) => frame(source, text)));
        const got: Record<string, Buffer[]> = { stdout: [], stderr: [] };
        const take = makeDemultiplexer((source, part) => got[source]?.push(part));
        for (let at = 0; at < bytes.length; at += size) take(bytes.subarray(at, at + size));
        const all = (wanted: number): Buffer =>
          Buffer.concat(sent.filter(([source]) => source === wanted).map(([, text]) => Buffer.from(text)));
        expect(Buffer.concat(got['stdout'] ?? []).equals(all(1))).toBe(true);
        expect(Buffer.concat(got['stderr'] ?? []).equals(all(2))).toBe(true);
      }),
    );
  });

  it('assemble lines cut anywhere, even inside a character', async () => {
    const bytes = Buffer.from('{"a":"ü"}\n\n{"b":1}\n{"c":');
    async function* chunks(): AsyncGenerator<Buffer> {
      for (const byte of bytes) yield Buffer.from([byte]);
    }
    const lines: string[] = [];
    for await (const line of linesOf(chunks())) lines.push(line);
    expect(lines).toEqual(['{"a":"ü"}', '{"b":1}', '{"c":']);
  });
});

describe('the engine’s address', () => {
  it('is parsed from DOCKER_HOST', () => {
    expect(endpointOf('unix:///run/docker.sock')).toEqual({ socketPath: '/run/docker.sock' });
    expect(endpointOf('/run/docker.sock')).toEqual({ socketPath: '/run/docker.sock' });
    expect(endpointOf('tcp://engine.example')).toEqual({ host: 'engine.example', port: 2375, protocol: 'http' });
    expect(endpointOf('tcp://engine.example:2376')).toMatchObject({ port: 2376, protocol: 'https' });
    for (const odd of ['ssh://engine.example', 'engine', '', 'unix://'])
      expect(() => endpointOf(odd)).toThrow('unix:///var');
  });
});
