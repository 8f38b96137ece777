/** Escapes that root inside an instance tries; `docs/escapes.md` lists these and others. */
import { once } from 'node:events';
import net from 'node:net';
import { beforeAll, describe, expect, it } from 'vitest';
import type { EngineSpec } from '../../../src/engines/contract.ts';
import { ensureDefaultImage } from '../../fixtures/default-images.ts';
import { deadline, type Subject } from '../../conformance/subject.ts';
import { onDocker, type DockerFixture } from './docker-fixture.ts';

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => ({ fixture, subject } = made));

/** A call of the C library, as root: prints the name of its error. */
const libc = (called: string): string =>
  `python3 -c "
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.${called} != -1: sys.exit(0)
sys.exit({errno.EPERM: 'not permitted', errno.EACCES: 'denied'}.get(ctypes.get_errno(), errno.errorcode[ctypes.get_errno()]))"`;

const call = (number: number, ...args: number[]): string => libc(`syscall(${[number, ...args].join(', ')})`);

/** Families of sockets that instances have no use for: vsock leads to the hypervisor. */
const FOREIGN_FAMILIES = [3, 4, 8, 9, 21, 27, 29, 30, 31, 38, 40, 44, 45];

/** A call of 32-bit x86, `int 0x80`: `socketcall` of `socket(40, SOCK_STREAM, 0)`. */
const socketcall = `python3 -c "
import ctypes, errno, mmap, os, sys
page = mmap.mmap(-1, 4096, prot=7, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40)  # below 4 GiB
page.write(bytes.fromhex('53b866000000bb0100000089f9cd805bc3'))
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
(ctypes.c_uint32 * 3).from_buffer(page, 1024)[:] = [40, 1, 0]
got = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)(address)(address + 1024)
if got >= 0: sys.exit(0)
sys.exit('not permitted' if got == -errno.ENOSYS else errno.errorcode[-got])"`;

/** Each ends with a failure that says why: not for lack of a program to try. */
const refused: Record<string, string[]> = {
  mounts: [
    libc("mount(b'/', b'/mnt', None, 4096, None)"), // MS_BIND
    libc("mount(b'proc', b'/mnt', b'proc', 0, None)"),
    libc("mount(b'sysfs', b'/mnt', b'sysfs', 0, None)"),
    libc("mount(b'cgroup', b'/mnt', b'cgroup', 0, b'memory')"),
    libc("mount(None, b'/etc/berth', None, 32 | 4096, None)"), // MS_REMOUNT, to write
    libc("umount2(b'/etc/berth', 2)"),
  ],
  namespaces: [
    libc('unshare(0x00020000)'), // mounts
    libc('unshare(0x10000000)'), // users
    libc('unshare(0x20000000)'), // processes
    libc("setns(os.open('/proc/1/ns/mnt', 0), 0)"),
    libc("sethostname(b'other', 5)"),
  ],
  'device nodes': [
    'mknod /tmp/disk b 7 0',
    'mknod /tmp/mem c 1 1',
    'head -c 1 /dev/mem',
    'head -c 1 /dev/kmsg',
    'head -c 1 /dev/fuse',
  ],
  '/proc and /sys': [
    'echo "|/bin/true" >/proc/sys/kernel/core_pattern',
    'echo /bin/true >/proc/sys/kernel/modprobe',
    'echo 1 >/proc/sys/net/ipv4/ip_forward',
    'echo b >/proc/sysrq-trigger',
    'echo /bin/true >/sys/kernel/uevent_helper',
    'echo mem >/sys/power/state',
    'for group in $(grep " cgroup2* " /proc/mounts | cut -d" " -f2); do mkdir $group/escape && exit 0; done; exit 1',
  ],
  'control files': ['echo x >/etc/berth/start', 'rm -r /opt/berth', 'echo x >/opt/berth/escape'],
  'system calls of the kernel': [
    call(175, 0, 0, 0), // init_module
    call(246, 0, 0, 0, 0), // kexec_load
    call(304, -100, 0, 0), // open_by_handle_at
    call(321, 0, 0, 0), // bpf
    call(298, 0, 0, -1, -1, 0), // perf_event_open
    call(164, 0, 0), // settimeofday
    call(169, 0xfee1dead, 672274793, 0, 0), // reboot
    call(250, 0, 0, 0, 0), // keyctl
    call(323, 0), // userfaultfd
    call(425, 0, 0), // io_uring_setup
    call(426, -1, 0, 0, 0, 0, 0), // io_uring_enter
    call(427, -1, 0, 0, 0), // io_uring_register
    call(438, 0, 0, 0), // pidfd_getfd
    call(442, 0, 0, 0, 0, 0), // mount_setattr
  ],
  'sockets of other families': [...FOREIGN_FAMILIES.map((family) => libc(`socket(${family}, 1, 0)`)), socketcall],
};

/** Each prints what it found: nothing. */
const empty: Record<string, string[]> = {
  'an engine': ['find / -xdev -type s \\( -name "*docker*" -o -name "*containerd*" -o -name "*podman*" \\)'],
  'disks of the host': ['find /dev -type b', 'head -c 1 /proc/kcore', 'ls /sys/firmware', 'cat /proc/keys'],
  'processes of the host': ['cat /proc/[0-9]*/comm | grep -x "dockerd\\|containerd\\|vitest"'],
};

/** What the filter must leave alone: each succeeds. */
const usual: Record<string, string> = {
  threads: `python3 -c "
import threading
all = [threading.Thread(target=int) for _ in range(20)]
for one in all: one.start()
for one in all: one.join()"`,
  'a debugger that traces its child': `python3 -c "
import ctypes, os, signal
child = os.fork()
if child == 0:
    assert ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0  # PTRACE_TRACEME
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
assert os.WIFSTOPPED(os.waitpid(child, 0)[1])
assert ctypes.CDLL(None).ptrace(7, child, 0, 0) == 0  # PTRACE_CONT
assert os.waitpid(child, 0)[1] == 0"`,
  'sockets of IPv4, IPv6, Unix and netlink': `python3 -c "
import socket
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX): socket.socket(family, socket.SOCK_STREAM)
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
socket.socketpair()"`,
  'shared memory of processes': `python3 -c "
import multiprocessing
assert multiprocessing.Pool(2).map(abs, [-1, -2]) == [1, 2]"`,
};

describe('root inside an instance', () => {
  let spec: EngineSpec;
  beforeAll(async () => {
    const imageRef = await ensureDefaultImage(fixture.docker, 'notebook');
    spec = subject.spec({ imageRef, start: 'stubborn', memoryMiB: 256 });
  });

  it('escapes by none of the ways tried', async (context) => {
    context.skip(process.arch !== 'x64', 'the numbers of system calls are those of x86-64');
    await fixture.engine.ensure(spec, deadline());
    const sh = (script: string) => subject.exec(spec.id, 'sh', '-c', script);
    const tried = Object.values(refused).flat();
    const answers = await Promise.all(tried.map(sh));
    for (const [index, { exitCode, stdout, stderr }] of answers.entries()) {
      expect(exitCode, `${tried[index]}: ${stdout}`).not.toBe(0);
      expect(stderr, tried[index]).toMatch(/denied|not permitted|read-only|no such file|nonexistent|can't open|busy/i);
    }
    for (const [what, script] of Object.entries(usual))
      expect(await sh(script), what).toMatchObject({ exitCode: 0, stderr: '' });
    for (const script of Object.values(empty).flat())
      expect((await sh(`(${script}) 2>/dev/null`)).stdout, script).toBe('');

    const server = net.createServer((socket) => socket.end('secret')).listen(0, '127.0.0.1');
    subject.after(async () => server.close());
    await once(server, 'listening');
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const { NetworkSettings } = await fixture.inspect(spec.id);
    const [network] = Object.values(NetworkSettings.Networks);
    for (const host of ['127.0.0.1', 'localhost', network?.Gateway ?? '']) {
      const { exitCode, stdout } = await sh(`curl -s -m 3 telnet://${host}:${port} </dev/null`);
      expect([exitCode, stdout], `the loopback of the API and the gateway, as ${host}`).toEqual([7, '']);
    }
    for (const port of [2375, 2376])
      expect((await sh(`curl -s -m 3 http://${network?.Gateway}:${port}/version`)).exitCode, 'the engine').toBe(7);
  });
});
