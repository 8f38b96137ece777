interface Sums {
  holding: number;
  waiting: number;
  gpusHeld: number;
  gpus: number;
}

export const fleet = {
  title: 'Fleet',
  tabs: { hosts: 'Regions and hosts', use: 'Use over time', instances: 'All instances', disks: 'Disk use' },
  summary: ({ holding, waiting, gpusHeld, gpus }: Sums) =>
    [
      `${holding === 1 ? '1 instance holds' : `${holding} instances hold`} capacity`,
      ...(gpus > 0 ? [`${gpusHeld} of ${gpus} GPUs held`] : []),
      ...(waiting > 0 ? [`${waiting} waiting`] : []),
    ].join(' · '),
  holding: (holding: number, waiting: number) =>
    `${holding} running or starting${waiting > 0 ? ` · ${waiting} waiting` : ''}`,
  capacity: 'Capacity',
  resources: { cpuCores: 'CPU cores', memoryGB: 'Memory in GB', gpuNum: 'GPUs', nodePorts: 'Node ports' },
  promisedOf: (promised: string, total: string, free: string) => `${promised} of ${total} promised, ${free} free`,
  inUse: (used: string) => `${used} in use`,
  written: (used: string) => `${used} written`,
  fileSystem: (free: string, size: string) => `File system: ${free} free of ${size}`,
  largestHosts: (hosts: string) => `Largest hosts: ${hosts}`,
  presentHosts: (hosts: string) => `Hosts that are there now: ${hosts}`,
  host: (cores: string, memory: string, gpus: number, model: string) =>
    `${cores} cores, ${memory}${gpus > 0 ? `, ${gpus} × ${model === '' ? 'GPU' : model}` : ''}`,
  pools: 'Pools of disks',
  whoFills: 'Who fills the disks',
  gpus: 'GPUs',
  freeGpu: 'free',
  noHolder: 'held by nobody',
  quarantine: (reasons: string) => `takes no launches: ${reasons}`,
  heldBy: (instance: string, user: string) => `held by ${instance} of ${user}`,
  busy: (load: string) => `${load} busy`,
  cardTitle: (index: number, model: string) => `GPU ${index}: ${model}`,
  cardFacts: {
    model: 'Model',
    uuid: 'UUID',
    name: 'Name in the engine',
    busy: 'Utilization',
    memory: 'Memory used',
    power: 'Power',
    temperature: 'Temperature',
    slowed: 'Slowed by',
    driver: 'Driver',
    cuda: 'CUDA of the driver',
    numaNode: 'NUMA node',
    links: 'Links to others',
    holder: 'Holder',
  },
  slowdowns: { heat: 'heat', powerBrake: 'the power brake', powerLimit: 'its power limit' },
  range: 'Time',
  ranges: { day: 'A day', weeks: 'Two weeks', quarter: '90 days' },
  chartNames: { gpuNum: 'GPUs', cpuCores: 'CPU cores', memoryGB: 'Memory in GB', diskGB: 'Disks in GB' },
  promisedNow: (amount: string) => `promised ${amount}`,
  usedNow: (amount: string) => `used ${amount}`,
  capacityNow: (amount: string) => `capacity ${amount}`,
  useShare: (promised: string, most: string, used: string) =>
    `Promised ${promised} of the capacity on average, ${most} at most; ${used} used on average.`,
  noUse: 'Nothing is stored of this time. A point comes every five minutes.',
  of: (part: string, all: string) => `${part} of ${all}`,
  unknown: 'not known',
  ofWholeCard: 'This is a part of a card: readings of the host are those of the whole card.',
  noLaunches: 'It takes no launches',
  since: 'Since',
  findings: (reason: string, evidence: string) =>
    ({
      gpuLost: {
        what: 'The host has lost the card',
        act: 'Reset the card (nvidia-smi --gpu-reset), or restart the host. The card returns by itself after a minute of readings.',
      },
      gpuNeedsReset: {
        what: `The driver asks for: ${evidence}`,
        act: 'Stop what runs on the card, then reset it (nvidia-smi --gpu-reset), or restart the host if the driver asks for that. The card returns by itself after a minute without.',
      },
      eccUncorrected: {
        what: `${evidence} memory errors that ECC did not correct`,
        act: 'Stop what runs on the card, reset it (nvidia-smi --gpu-reset), test it, and return it here. Replace a card whose errors come back.',
      },
    })[reason] ?? {
      what: reason.startsWith('xid ') ? `The driver reported Xid ${reason.slice(4)}` : reason,
      act: 'Look the number up in the catalog, reset the card or restart the host, test it, and return it here.',
    },
  xidCatalog: 'NVIDIA’s catalog of Xids',
  returnCard: 'Return the card',
  returnHint: 'What was done; administrators read it',
  cardReturned: 'The card takes launches again',
  notExact: 'The engine does not say which GPU an instance holds: one of its model is drawn as held.',
  fits: 'What would fit now',
  columns: { type: 'Type', gpus: 'GPUs', fits: 'Could start now', owner: 'Owner', region: 'Region' },
  noneFits: 'none',
  more: (count: string) => `${count} more`,
  largestOf: (shown: number, all: number) => `The ${shown} largest of ${all}.`,
  noInstances: { title: 'No instances', text: 'Instances of all accounts appear here.' },
  drain: 'Drain',
  endDrain: 'End the drain',
  drainTitle: (name: string) => `Drain ${name}?`,
  endDrainTitle: (name: string) => `End the drain of ${name}?`,
  drainHint: (holding: number) =>
    `New launches and starts are refused or wait. ${holding === 1 ? '1 instance that runs stays' : `${holding} instances that run stay`}, unless you choose otherwise.`,
  endDrainHint: 'Launches and starts go on, and the queue with them.',
  drainReason: 'Everybody who launches here reads it',
  stopRunning: 'Stop what runs after a time',
  afterMinutes: 'Minutes until then',
  drained: (reason: string, since: string) => `Drained since ${since}: ${reason}.`,
  drainStops: (time: string) => `Running instances are stopped at ${time}.`,
};
