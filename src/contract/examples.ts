/** Example values for the API document, chosen by the name of a field and valid for its schema. */
import { z } from 'zod';

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export const exampleIds = {
  instance: 'notebook-3f0c2b6e-0a53-4c43-9a0e-5d1f6a7c2b91',
  volume: '7b1e4a52-6f3d-4c0b-8a27-0d5b9c3e1f64',
  region: 'c2d8f1a0-91b7-4e6a-b3c5-2f7e8d9a0b13',
  other: '5e9a7c31-2b84-4f0d-9c6e-1a3b5d7f9e20',
};
const startMs = 1_767_600_000_000;
const secondsLater = (seconds: number): number => startMs + seconds * 1_000;
const url = 'https://gpu.example.net/notebook/';

/** By `Component.field`, or by field where all components agree. */
const values: Record<string, Json> = {
  'Instance.actions': ['stop', 'restart', 'terminate'],
  'InstanceType.instanceId': exampleIds.other,
  'InstanceRuntime.message': '',
  'InstanceRuntime.phase': 'Running',
  'InstanceSpec.name': 'train',
  'IdRequest.id': exampleIds.other,
  'DeleteEnvironmentRequest.names': ['HF_TOKEN'],
  'DeleteInstanceEnvironmentRequest.names': ['HF_TOKEN'],
  'SetEnvironmentRequest.secrets': { HF_TOKEN: 'hf_…' },
  'SetInstanceEnvironmentRequest.secrets': { HF_TOKEN: 'hf_…' },
  'Variable.name': 'HF_TOKEN',
  'Variable.value': null,
  'Variable.isSecret': true,
  'Variable.isLost': false,
  'Variable.from': 'account',
  'LaunchRequest.name': 'train',
  'LaunchRequest.nodePorts': [8000],
  'ListOperationsRequest.instanceId': exampleIds.instance,
  'InstanceDisk.id': '',
  'InstanceDisk.mountPath': '/',
  'InstanceDisk.biggest': [],
  'InstanceImage.name': 'python-3.13',
  'InstanceImage.type': 'notebook',
  'InstanceBilling.type': 'On-Demand',
  'InstanceBilling.unit': '$',
  'Image.name': 'python-3.13',
  'Image.type': 'notebook',
  'Image.state': 'Ready',
  'Amount.amount': 4,
  'Amount.type': '',
  'Amount.unit': '',
  'OffPeak.timeZone': 'Europe/Berlin',
  'OffPeakRequest.timeZone': 'Europe/Berlin',
  'OffPeakWindow.days': ['mon', 'tue'],
  'OffPeakWindow.start': '22:00',
  'OffPeakWindow.end': '06:00',
  'RegionEngine.name': 'docker',
  'RegionEngine.text': 'Docker 28.5.1 answers',
  'RegionVolumeType.type': 'filesystem',
  'RegionInfo.name': 'default',
  'Region.name': 'default',
  'Region.capabilities': {
    gpus: false,
    isolation: {
      kernelLimits: true,
      hostReserve: true,
      connectionLimit: true,
      linkLocalClosed: true,
      egressPolicy: true,
      userNamespaces: 'none',
      runtimes: ['runc'],
    },
    sizes: { processors: true, memory: true },
  },
  'Region.volumeTypes': [],
  'MetricSeries.mean': [250, 310, null],
  'MetricSeries.max': [400, 520, null],
  'Metrics.fromUnixMs': startMs,
  'Metrics.toUnixMs': secondsLater(45),
  'Metrics.stepSeconds': 15,
  'MetricsSeries.gpus': [],
  'MetricsSample.gpus': [],
  'Operation.error': null,
  'Operation.subjectId': exampleIds.instance,
  'Operation.endedAtUnixMs': secondsLater(30),
  'Operation.kind': 'launch',
  'Operation.state': 'Succeeded',
  'Operation.cause': 'user',
  'EgressRange.cidr': '203.0.113.0/24',
  'EgressRange.ports': ['443', '8000-8100'],
  'EgressPolicy.mode': 'list',
  'GetEgressRequest.account': 'ann',
  'SetEgressRequest.account': 'ann',
  'EgressAnswer.regionId': null,
  'EgressAnswer.userId': exampleIds.other,
  'Operation.reason': '',
  reason: 'maintenance of the host',
  'Stage.name': 'Container',
  'Stage.endedAtUnixMs': secondsLater(2),
  'Stray.subjectId': exampleIds.instance,
  'Stray.engineName': `berth-${exampleIds.instance}`,
  'HandleStrayRequest.action': 'stop',
  'OpenAnswer.url': 'https://gpu.example.net/.berth/open?grant=1kQ',
  'SharePortAnswer.url': 'https://gpu.example.net/.berth/share?token=sh_4fT9',
  'Snapshot.status': 'Ready',
  'Snapshot.reason': '',
  'SharePortRequest.seconds': 86_400,
  'PortAccess.note': '',
  'PortAccess.hostUrl': null,
  'PortAccess.nodePort': null,
  'PortAccessRequest.access': 'signedIn',
  'StopPolicy.stopAtUnixMs': null,
  'StopPolicy.keepAliveUntilUnixMs': null,
  'StopPolicyRequest.maxRunMinutes': 480,
  'StopPolicyRequest.idleStop': { afterMinutes: 60 },
  'ActivitySignal.text': 'a kernel is busy',
  'Activity.state': 'active',
  'Activity.idleSinceUnixMs': null,
  'Activity.willStopAtUnixMs': null,
  'Terminal.closesAtUnixMs': null,
  'ExecRequest.command': ['python', '-c', 'print(6 * 7)'],
  'ExecRequest.timeoutSeconds': 60,
  'ExpandDiskRequest.dataDiskGB': 100,
  'GetVolumeAnswer.madeFrom': null,
  'HandleStrayAnswer.instanceId': null,
  'ListFilesAnswer.next': null,
  'Catalog.instanceInfos': [],
  'CatalogFamily.gpuName': '',
  'FileEntry.name': 'train.csv',
  'FileWritten.sizeBytes': 1_048_576,
  'LogsAnswer.next': `${startMs}.1`,
  'LogLine.text': 'Epoch 1/10',
  'LogLine.atUnixMs': startMs,
  'NewApiKey.name': 'ci',
  'NewApiKey.fullKey': 'bk_Vd3yqk0Jr8Qh2nWm6Zt4',
  'ApiKey.name': 'ci',
  'NameRequest.name': 'ci',
  'CreateImageRequest.ref': 'docker.io/library/python:3.13',
  'User.group': ['user'],
  'Login.userAgent': 'curl/8.14.1',
  'Login.current': true,
  'Account.reason': '',
  'Account.state': 'active',
  'Account.disabledAtUnixMs': null,
  'Account.deleteAtUnixMs': null,
  'Account.instances': 2,
  'Account.volumes': 1,
  'AccountHoldings.instances': [{ id: exampleIds.instance, name: 'train', status: 'Running' }],
  'AccountHoldings.volumes': [{ id: exampleIds.volume, name: 'data', sizeGB: 100 }],
  'AccountHoldings.snapshots': [],
  'AccountHoldings.images': [],
  'AccountHoldingCounts.instances': 1,
  'AccountHoldingCounts.volumes': 1,
  'AccountHoldingCounts.snapshots': 0,
  'AccountHoldingCounts.images': 0,
  'DeleteAccountRequest.reason': '',
  'DisableAccountRequest.reason': 'the invoice of May is unpaid',
  'ListAccountsRequest.search': 'example.org',
  'PasswordLinkAnswer.url': 'https://api.example.net/password?token=4fT9',
  accountId: exampleIds.other,
  role: 'user',
  state: 'active',
  accessToken: 'eyJhbGciOiJFZERTQSJ9.e30.c2ln',
  accessExpire: 86_400,
  address: '203.0.113.7',
  architecture: 'amd64',
  balance: 100,
  because: 'a kernel is busy',
  chargeMode: 'perHour',
  command: ['python', '--version'],
  consistency: 'atomic',
  cpuPercent: 10,
  currentPage: 1,
  dataDiskAmountGi: 50,
  dataDiskAmountGiReq: 50,
  diagnosisMessage: '',
  diagnosisReason: '',
  disk: 'root',
  domain: 'gpu.example.net',
  email: 'ada@example.net',
  exitCode: 0,
  fingerprint: 'SHA256:3x0mYp1oEw0c0Jv0x6l0mE0mXq1bJ7v0mC1bYw0oQ2s',
  from: 'login',
  handling: 'policy',
  hostUrl: null,
  id: exampleIds.volume,
  imageId: exampleIds.other,
  imageRef: 'docker.io/library/python:3.13',
  initScript: 'pip install torch',
  instanceId: exampleIds.instance,
  instanceTypeId: exampleIds.other,
  instanceTypeName: 'cpu.4',
  instanceUsername: 'root',
  isPublic: 'true',
  key: 'bk_Vd3yqk0Jr8Qh2nWm6Zt4',
  lastFour: '6Zt4',
  location: 'Frankfurt',
  message: 'the volume is still in use: stop the instances that mount it',
  minutes: 60,
  mode: '0644',
  mountPath: '/root/data',
  name: 'datasets',
  newPassword: 'correct horse battery staple',
  nodePort: 31_400,
  note: '',
  oldPassword: 'password of yesterday',
  operationId: exampleIds.other,
  ownerUserName: exampleIds.other,
  pageSize: 20,
  password: 'correct horse battery staple',
  path: 'data',
  pathUrl: `${url}8000/`,
  percent: 100,
  pool: 'default',
  port: 8000,
  price: 0.08,
  publicKey: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKRpl21ho9laap3EzYT67I4DwxlSY3HAQ8y8/WX0j29S ada',
  ref: '',
  region: exampleIds.region,
  regionId: exampleIds.region,
  regionName: 'default',
  remoteStorageId: exampleIds.volume,
  remoteStorageName: 'datasets',
  secret: 'ghp_Vd3yqk0Jr8Qh2nWm6Zt4',
  server: 'ghcr.io',
  shareId: exampleIds.other,
  sizeGB: 100,
  snapshotName: 'before-training',
  sshAddress: '203.0.113.7',
  status: 'Running',
  stderr: '',
  stdout: 'Python 3.13.2\n',
  strayId: exampleIds.other,
  subUrl: `/notebook/${exampleIds.instance}/`,
  tags: ['python'],
  terminal: 'main',
  token: 'sh_4fT9',
  totalEntries: 1,
  type: 'filesystem',
  unless: '',
  url: `${url}8000/`,
  userId: exampleIds.other,
  username: 'ada',
  value: 'default',
  volumeId: exampleIds.volume,
  volumeName: 'datasets',
  volumeType: 'filesystem',
  whatToDo: 'choose a smaller instance type',
};
const volumeStatus = 'Bound';

export function exampleOf(schema: z.core.$ZodType, name = '', component = ''): Json {
  if (component === 'Volume' && name === 'status') return volumeStatus;
  const preset = values[`${component}.${name}`] ?? (`${component}.${name}` in values ? null : undefined);
  if (preset !== undefined) return preset;
  const inner = unwrap(schema);
  if (inner instanceof z.ZodObject) return exampleObject(inner);
  const common = values[name];
  if (common !== undefined && z.safeParse(schema, common).success) return common;
  if (inner instanceof z.ZodArray) return [exampleOf(inner.element)];
  if (inner instanceof z.ZodRecord) return {};
  if (inner instanceof z.ZodEnum) return inner.options[0] ?? null;
  if (inner instanceof z.ZodBoolean) return /^(running|healthy|answers|isDefault|reachable)$/.test(name);
  if (inner instanceof z.ZodNumber) return /UnixMs$|At$/.test(name) ? startMs : Math.max(0, inner.minValue ?? 0);
  return '';
}

/** Without optional fields, but those with a value for their component. */
function exampleObject(schema: z.ZodObject): Json {
  const component = nameOf(schema);
  return Object.fromEntries(
    Object.entries<z.core.$ZodType>(schema.shape).flatMap(([name, field]): [string, Json][] => {
      const isOptional = z.safeParse(field, undefined).success;
      return isOptional && !(`${component}.${name}` in values) ? [] : [[name, exampleOf(field, name, component)]];
    }),
  );
}

/** A described copy of a named schema has the name on its original. */
function nameOf(schema: z.core.$ZodType): string {
  let at: z.core.$ZodType | undefined = schema;
  for (; at !== undefined; at = at._zod.parent) {
    const name = z.globalRegistry.get(at)?.id;
    if (name !== undefined) return name;
  }
  return '';
}

function unwrap(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault)
    return unwrap(schema.unwrap());
  return schema instanceof z.ZodPipe ? unwrap(schema.in) : schema;
}
