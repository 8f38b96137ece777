/** Counters of an instance, read inside from its control group, of version 1 or 2. */

/** Prints a line per figure. Builtins but `cat`. */
export const READ_COUNTERS = `
group=/sys/fs/cgroup
say() { [ -r "$2" ] && read -r value <"$2" && echo "$1 $value"; }
field() { while read -r name value; do [ "$name" = "$2" ] && echo "$1 $value"; done <"$3"; }
if [ -r $group/cpu.stat ] && [ ! -d $group/cpu ]; then
  field cpu_us usage_usec $group/cpu.stat
  say memory $group/memory.current
  field cache inactive_file $group/memory.stat
  say pids $group/pids.current
  say pids_max $group/pids.max
else
  say cpu_ns $group/cpuacct/cpuacct.usage
  say memory $group/memory/memory.usage_in_bytes
  field cache total_inactive_file $group/memory/memory.stat
  say pids $group/pids/pids.current
  say pids_max $group/pids/pids.max
fi
while read -r name received _ _ _ _ _ _ _ sent _; do
  case $name in lo:*|Inter*|face*|\\|*) ;; *:) echo "network $received $sent" ;; esac
done </proc/net/dev
:`;

export interface InsideReading {
  atMs: number;
  cpuNs: number;
  memoryBytes: number;
  receivedBytes: number | null;
  sentBytes: number | null;
  readBytes: null;
  writtenBytes: null;
  processes: number | null;
  processLimit: number | null;
}

/** Null without CPU or memory. */
export function parseReading(text: string, atMs: number): InsideReading | null {
  const figures = new Map<string, number>();
  let [received, sent] = [0, 0];
  let hasNetwork = false;
  for (const line of text.split('\n')) {
    const [name = '', first = '', second = ''] = line.trim().split(' ');
    if (name === 'network') {
      received += Number(first);
      sent += Number(second);
      hasNetwork = true;
    } else if (/^\d+$/.test(first)) figures.set(name, Number(first));
  }
  const cpuNs = figures.get('cpu_ns') ?? (figures.get('cpu_us') ?? Number.NaN) * 1000;
  const memory = figures.get('memory');
  if (Number.isNaN(cpuNs) || memory === undefined) return null;
  return {
    atMs,
    cpuNs,
    memoryBytes: Math.max(0, memory - (figures.get('cache') ?? 0)),
    receivedBytes: hasNetwork && Number.isFinite(received) ? received : null,
    sentBytes: hasNetwork && Number.isFinite(sent) ? sent : null,
    readBytes: null,
    writtenBytes: null,
    processes: figures.get('pids') ?? null,
    processLimit: figures.get('pids_max') ?? null,
  };
}
