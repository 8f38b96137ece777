/**
 * Filters of system calls (seccomp, in the form of Docker). Pure.
 *
 * The filter of an engine depends on its version: Docker before 23 lets instances open AF_VSOCK,
 * which belongs to no network namespace and leads to the hypervisor, and before 25 use io_uring. So
 * instances have this filter on every engine. It allows the calls of programs without rights over
 * the machine: no mounts, namespaces, modules, keys, clocks, and none that is newer.
 */

/** Internet, Unix sockets, netlink, and packets (which need a right that instances lack). */
const SOCKET_FAMILIES = [0, 1, 2, 10, 16, 17];
const MAX_FAMILY = 17;
/** Flags of `clone` for namespaces. */
const NAMESPACE_FLAGS = 0x7e02_0000;
const ENOSYS = 38;
/** Default, 32-bit, older kernels, the last two together, and the question for the present one. */
const PERSONALITIES = [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff];

type Comparison = 'SCMP_CMP_EQ' | 'SCMP_CMP_GT' | 'SCMP_CMP_MASKED_EQ';
interface Rule {
  names: readonly string[];
  action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO';
  errnoRet?: number;
  args?: { index: number; value: number; valueTwo?: number; op: Comparison }[];
}

const first = (name: string, action: Rule['action'], value: number, op: Comparison = 'SCMP_CMP_EQ'): Rule => ({
  names: [name],
  action,
  args: [{ index: 0, value, op }],
});

const filterOf = (defaultAction: Rule['action'], syscalls: readonly Rule[]): string =>
  JSON.stringify({
    defaultAction,
    archMap: [
      { architecture: 'SCMP_ARCH_X86_64', subArchitectures: ['SCMP_ARCH_X86', 'SCMP_ARCH_X32'] },
      { architecture: 'SCMP_ARCH_AARCH64', subArchitectures: ['SCMP_ARCH_ARM'] },
    ],
    syscalls,
  });

/**
 * For a daemon that needs namespaces and mounts: refuses the names, and other socket families. So
 * does `socketcall` of 32-bit x86, whose family a filter cannot see.
 */
export const denyingFilter = (names: readonly string[]): string =>
  filterOf('SCMP_ACT_ALLOW', [
    { names: [...names, 'socketcall'], action: 'SCMP_ACT_ERRNO' },
    ...Array.from({ length: MAX_FAMILY }, (_, family) => family)
      .filter((family) => !SOCKET_FAMILIES.includes(family))
      .map((family) => first('socket', 'SCMP_ACT_ERRNO', family)),
    first('socket', 'SCMP_ACT_ERRNO', MAX_FAMILY, 'SCMP_CMP_GT'),
  ]);

export const IO_URING = ['io_uring_enter', 'io_uring_register', 'io_uring_setup'];

/** Architectures whose calls `ALLOWED_CALLS` names. */
export const FILTERED_ARCHITECTURES: readonly string[] = ['amd64', 'arm64', 'arm'];

const ALLOWED_CALLS = [
  '_llseek _newselect accept accept4 access adjtimex alarm arch_prctl arm_fadvise64_64',
  'arm_sync_file_range bind breakpoint brk cacheflush cachestat capget capset chdir chmod chown',
  'chown32 chroot clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime',
  'clock_gettime64 clock_nanosleep clock_nanosleep_time64 close close_range connect',
  'copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old',
  'epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit',
  'exit_group faccessat faccessat2 fadvise64 fadvise64_64 fallocate fanotify_mark fchdir fchmod',
  'fchmodat fchmodat2 fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock',
  'fork fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate',
  'ftruncate64 futex futex_requeue futex_time64 futex_wait futex_waitv futex_wake futimesat',
  'get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid getegid32 geteuid',
  'geteuid32 getgid getgid32 getgroups getgroups32 getitimer getpeername getpgid getpgrp getpid',
  'getppid getpriority getrandom getresgid getresgid32 getresuid getresuid32 getrlimit getrusage',
  'getsid getsockname getsockopt gettid gettimeofday getuid getuid32 getxattr getxattrat',
  'inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy',
  'io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit ioctl ioprio_get ioprio_set',
  'ipc kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lchown32',
  'lgetxattr link linkat listen listmount listxattr listxattrat llistxattr lremovexattr lseek',
  'lsetxattr lstat lstat64 madvise map_shadow_stack membarrier memfd_create memfd_secret mincore',
  'mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap mmap2 modify_ldt mprotect mq_getsetattr',
  'mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64',
  'mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap',
  'name_to_handle_at nanosleep newfstatat open openat openat2 pause pidfd_open pidfd_send_signal',
  'pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll ppoll_time64 prctl pread64 preadv',
  'preadv2 prlimit64 process_mrelease process_vm_readv process_vm_writev pselect6 pselect6_time64',
  'ptrace pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg',
  'recvmmsg_time64 recvmsg remap_file_pages removexattr removexattrat rename renameat renameat2',
  'restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo',
  'rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo',
  'sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam',
  'sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity',
  'sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop',
  'semtimedop semtimedop_time64 sendfile sendfile64 sendmmsg sendmsg sendto set_robust_list',
  'set_thread_area set_tid_address set_tls setfsgid setfsgid32 setfsuid setfsuid32 setgid',
  'setgid32 setgroups setgroups32 setitimer setpgid setpriority setregid setregid32 setresgid',
  'setresgid32 setresuid setresuid32 setreuid setreuid32 setrlimit setsid setsockopt setuid',
  'setuid32 setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaction sigaltstack signalfd',
  'signalfd4 sigprocmask sigreturn socketpair splice stat stat64 statfs statfs64 statmount statx',
  'symlink symlinkat sync sync_file_range sync_file_range2 syncfs sysinfo tee tgkill time',
  'timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime',
  'timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime',
  'timerfd_settime64 times tkill truncate truncate64 ugetrlimit umask uname unlink unlinkat',
  'uretprobe utime utimensat utimensat_time64 utimes vfork vmsplice wait4 waitid waitpid write',
  'writev',
].flatMap((line) => line.split(' '));

export const instanceFilter = filterOf('SCMP_ACT_ERRNO', [
  { names: ALLOWED_CALLS, action: 'SCMP_ACT_ALLOW' },
  ...SOCKET_FAMILIES.map((family) => first('socket', 'SCMP_ACT_ALLOW', family)),
  ...PERSONALITIES.map((personality) => first('personality', 'SCMP_ACT_ALLOW', personality)),
  {
    names: ['clone'],
    action: 'SCMP_ACT_ALLOW',
    args: [{ index: 0, value: NAMESPACE_FLAGS, valueTwo: 0, op: 'SCMP_CMP_MASKED_EQ' }],
  },
  // Its family is in memory, and libseccomp allows it all families where `socket` has some. Another
  // error than the default, or the engine leaves the rule out.
  { names: ['socketcall'], action: 'SCMP_ACT_ERRNO', errnoRet: ENOSYS },
  // Its flags are in memory, which a filter cannot see: programs fall back to `clone`.
  { names: ['clone3'], action: 'SCMP_ACT_ERRNO', errnoRet: ENOSYS },
]);
