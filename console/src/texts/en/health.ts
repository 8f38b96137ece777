export const health = {
  title: 'Health',
  well: (engine: string, regions: number, tasks: number) =>
    `All is well: the server is ready (${engine}), ${regions === 1 ? '1 region answers' : `${regions} regions answer`}, ${tasks} background tasks run without errors.`,
  severities: { bad: 'Broken', warns: 'Warning', tells: 'Note' },
  sentences: {
    notReady: (text: string) => `The server is not ready: ${text}`,
    degraded: (text: string) => `The server is ready, and something needs you: ${text}`,
    engineSilent: (region: string, text: string) =>
      `The engine of ${region} does not answer: ${text}. Its instances keep their state and go on once it is back.`,
    taskFails: (task: string, error: string, failures: number) =>
      `The background task “${task}” fails (${failures} times): ${error}`,
    taskLate: (task: string, time: string) => `The background task “${task}” has not run since ${time}.`,
    poolFull: (pool: string, region: string, share: string) =>
      `The pool ${pool} of ${region} is promised to ${share}: new disks will be refused.`,
    fileSystemFull: (pool: string, region: string, free: string) =>
      `The file system of the pool ${pool} of ${region} has ${free} left: writes will fail.`,
    diskHeld: (disk: string, time: string, processes: string) =>
      `Processes of the host keep the ${disk} from being removed since ${time}${processes === '' ? '' : `: ${processes}`}.`,
    webhookOff: (url: string, error: string) => `The webhook ${url} was switched off after long failure: ${error}`,
    webhookFails: (url: string, error: string, attempts: number) =>
      `The webhook ${url} fails (${attempts === 1 ? '1 attempt' : `${attempts} attempts`}): ${error}`,
    drained: (region: string, reason: string, stopsAt: string | null) =>
      `${region} is drained: ${reason}.${stopsAt === null ? '' : ` What runs is stopped at ${stopsAt}.`}`,
    waiting: (region: string, count: number) =>
      count === 1 ? `1 start waits for capacity in ${region}.` : `${count} starts wait for capacity in ${region}.`,
    orphans: (count: number, running: number) =>
      `${count === 1 ? '1 resource has' : `${count} resources have`} no record${running > 0 ? `; ${running} of them run and cost nobody` : ''}.`,
    priceDue: (count: number, time: string) =>
      `${count === 1 ? 'A new price counts' : `${count} new prices count`} from ${time}.`,
    accountEnds: (name: string, time: string) => `The account ${name} is deleted with all it has at ${time}.`,
  },
  proxies: {
    title: 'Proxies in front',
    hint: 'This browser opens a WebSocket, a stream and a body of 4 MB at each address, and compares what arrives.',
    check: 'Check what is in front',
    well: 'Nothing is changed or refused on the way.',
    faults: {
      unreached:
        'Nothing answers: the name leads nowhere, or the proxy does not listen there or has no certificate for it.',
      foreign: (status: number) =>
        status === 403 || status === 404
          ? `The proxy itself answers (${status}): it does not lead this address to Berth, or refuses paths that begin with a dot, such as /.berth/check; notebooks have such paths, too.`
          : `Something else answers (${status}): the proxy does not lead this address to Berth, or does not reach it.`,
      listener: (seen: 'api' | 'gateway'): string =>
        seen === 'api'
          ? 'This address leads to the API, not to the gateway: the proxy has to pass it to the port of the gateway.'
          : 'This address leads to the gateway, not to the API: the proxy has to pass it to the port of the API.',
      othersUnknown: 'Gateway and hosts of ports are not checked: the API, which names them, was not reached.',
      host: (seen: string) => `Berth sees the host “${seen}”: the proxy has to pass the header Host as it came.`,
      scheme: (seen: string) => `Berth sees ${seen}: the proxy has to send the header X-Forwarded-Proto.`,
      forwardedFor: 'The proxy sends no header X-Forwarded-For: all people share the limits of one address.',
      untrusted: 'The headers of the proxy do not count: name its address in BERTH_TRUSTED_PROXIES.',
      webSocket:
        'WebSockets do not open, which terminals and notebooks need: the proxy has to pass the headers Upgrade and Connection on.',
      stream:
        'A stream arrives late: the proxy has to send text/event-stream as it comes, without buffers and compression.',
      body: (status: number) =>
        status === 413
          ? 'A body of 4 MB is refused (413): the limit of the proxy for bodies has to be raised.'
          : `A body of 4 MB does not arrive (${status === 0 ? 'the connection ends' : status}).`,
      headers: (status: number) =>
        `Headers of 30 KB do not arrive (${status === 0 ? 'the connection ends' : status}): the proxy has to take 32 KB, with nginx by large_client_header_buffers 4 32k.`,
      claim:
        'Clients can claim an address: the proxy has to set X-Forwarded-For, or to add the address of the client, and to delete what a client sent if it writes Forwarded instead.',
    },
  },
  steps: {
    region: 'The region',
    disks: 'Who fills the disks',
    webhooks: 'The webhooks',
    fleet: 'The fleet',
    orphans: 'The orphans',
    prices: 'The prices',
    account: 'The account',
    tasks: 'The tasks',
  },
  tasks: 'Background tasks',
  tasksFailed: (failed: number, all: number) =>
    failed === 0 ? `The last runs of all ${all} succeeded.` : `The last runs of ${failed} of ${all} failed.`,
  allTasks: 'Show all',
  onlyFailed: 'Show failed only',
  columns: { task: 'Task', state: 'Last run', every: 'Every', last: 'Started', took: 'Took', failures: 'Failures' },
  due: 'Due work',
  dueColumns: { kind: 'Act', count: 'Number', next: 'Next', failing: 'Last tries' },
  runs: 'runs now',
  succeeded: 'succeeded',
  failed: 'failed',
  failuresOf: (failures: string, runs: string) => `${failures} of ${runs}`,
};
