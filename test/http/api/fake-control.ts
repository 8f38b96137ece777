import type { Access, Caller, Control, Files, Forwarding } from '../../../src/control/index.ts';
import type { Catalog } from '../../../src/control/regions/capacity/catalog.ts';
import type { Instances } from '../../../src/control/compute/instances/instances.ts';
import type { Snapshots } from '../../../src/control/storage/snapshots.ts';
import type { Volumes } from '../../../src/control/storage/volumes.ts';
import type { Images } from '../../../src/control/regions/images/images.ts';
import type { Registries } from '../../../src/control/regions/images/registries.ts';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';

export const GOOD_TOKEN = 'good';
export const ADMIN_TOKEN = 'good-admin';

export const fakeCaller: Caller = {
  accountId: 'account-1',
  username: 'alice',
  email: 'alice@example.org',
  roles: ['user'],
  sessionId: 'session-1',
  scopes: null,
};

type Parts = { [Part in keyof Control]?: Control[Part] extends object ? Partial<Control[Part]> : never };

export function fakeControl(
  given: Parts & { versionOf?: Control['versionOf']; health?: Control['health']; refuseIfFull?: () => void } = {},
): Control {
  return {
    access: { ...refusingAccess, ...given.access },
    accounts: { ...unaskedAccounts, ...given.accounts },
    webhooks: {
      create: unasked,
      list: unasked,
      update: unasked,
      delete: unasked,
      test: unasked,
      deliveries: unasked,
      redeliver: unasked,
      resend: unasked,
      ...given.webhooks,
    },
    usage: { rows: unasked, ...given.usage },
    statements: { page: unasked, whole: unasked, ...given.statements },
    payments: { takeStripe: unasked, ...given.payments },
    chargeExports: { own: unasked, all: unasked, ...given.chargeExports },
    books: { entries: unasked, entriesFor: unasked, periods: unasked, ...given.books },
    audit: { record: async () => {}, list: unasked, ...given.audit },
    environments: { list: unasked, change: unasked, ...given.environments },
    budgets: {
      set: unasked,
      list: unasked,
      delete: unasked,
      setFor: unasked,
      listFor: unasked,
      deleteFor: unasked,
      forecast: unasked,
      ...given.budgets,
    },
    quotas: { get: unasked, set: unasked, requestsPerSecond: () => 1_000_000, ...given.quotas },
    credits: { give: unasked, reverse: unasked, setOverdraft: unasked, list: unasked, ...given.credits },
    templates: { set: unasked, list: unasked, delete: unasked, ...given.templates },
    quotes: { quote: unasked, ...given.quotes },
    priceHistory: { list: unasked, withdraw: unasked, ...given.priceHistory },
    instances: { ...unaskedInstances, ...given.instances },
    files: { ...unaskedFiles, ...given.files },
    volumes: { ...unaskedVolumes, ...given.volumes },
    snapshots: { ...unaskedSnapshots, ...given.snapshots },
    catalog: { ...unaskedCatalog, ...given.catalog },
    figures: { read: unasked, ...given.figures },
    fleet: { read: unasked, ...given.fleet },
    offeredTypes: { list: unasked, create: unasked, update: unasked, retire: unasked, ...given.offeredTypes },
    offeredImages: { list: unasked, create: unasked, update: unasked, retire: unasked, ...given.offeredImages },
    regionAdministration: {
      get: unasked,
      list: unasked,
      create: unasked,
      update: unasked,
      retire: unasked,
      ...given.regionAdministration,
    },
    images: { ...unaskedImages, ...given.images },
    registries: { ...unaskedRegistries, ...given.registries },
    heldDisks: { list: unasked, ...given.heldDisks },
    tasks: { list: unasked, ...given.tasks },
    orphans: { list: unasked, handle: unasked, ...given.orphans },
    ports: {
      setAccess: unasked,
      list: unasked,
      share: unasked,
      shares: unasked,
      unshare: unasked,
      ...given.ports,
    },
    egress: { get: unasked, set: unasked, ...given.egress },
    operator: {
      instances: unasked,
      volumes: unasked,
      instance: unasked,
      stop: unasked,
      start: unasked,
      terminate: unasked,
      drain: unasked,
      ...given.operator,
    },
    stopPolicies: { set: unasked, keepAlive: unasked, idleStatus: unasked, ...given.stopPolicies },
    metrics: { read: unasked, ...given.metrics },
    logs: { read: unasked, follow: unaskedEvents, all: unaskedEvents, ...given.logs },
    commands: { run: unasked, open: unasked, check: unasked, ...given.commands },
    terminals: { attach: unasked, list: unasked, close: unasked, ...given.terminals },
    forwarding: unaskedForwarding,
    routeTable: { follow: unasked },
    operations: { read: unasked, list: unasked, cancel: unasked, ...given.operations },
    events: { follow: unaskedEvents, ...given.events },
    versionOf: given.versionOf ?? (async () => 1),
    refuseIfFull: given.refuseIfFull ?? (() => {}),
    health: given.health ?? (async () => ({ ready: true, isDegraded: false, text: 'the fake is well' })),
  };
}

const unasked = async (): Promise<never> => {
  throw new Error('the test did not expect control to be asked this');
};

// oxlint-disable-next-line require-yield -- it only throws
async function* unaskedEvents(): AsyncGenerator<never, void> {
  throw new Error('the test did not expect control to be asked for events');
}

const refusingAccess: Access = {
  async authenticate(credential) {
    const text = credential.kind === 'token' ? credential.token : credential.key;
    if (text === GOOD_TOKEN) return fakeCaller;
    if (text === ADMIN_TOKEN) return { ...fakeCaller, roles: ['admin'] };
    throw new Refusal('not_logged_in', 'log in again');
  },
  login: unasked,
  signOn: unasked,
  logout: unasked,
  listLogins: unasked,
  revokeLogin: unasked,
  changePassword: unasked,
  createUser: unasked,
  createApiKey: unasked,
  listApiKeys: unasked,
  deleteApiKey: unasked,
  createSshKey: unasked,
  listSshKeys: unasked,
  deleteSshKey: unasked,
  balance: unasked,
  listSessions: unasked,
  revokeSession: unasked,
};
const unaskedAccounts: Control['accounts'] = {
  list: unasked,
  get: unasked,
  disable: unasked,
  enable: unasked,
  setRole: unasked,
  delete: unasked,
  restore: unasked,
  invite: unasked,
  resetPassword: unasked,
  linkOf: unasked,
  resetAtHost: unasked,
  register: unasked,
  registers: () => false,
  setPassword: unasked,
};
const unaskedInstances: Instances = {
  launch: unasked,
  list: unasked,
  stop: unasked,
  start: unasked,
  restart: unasked,
  archive: unasked,
  terminate: unasked,
  update: unasked,
  expandDisk: unasked,
  setBilling: unasked,
  get: unasked,
  open: unasked,
};
const unaskedVolumes: Volumes = {
  create: unasked,
  list: unasked,
  setLabels: unasked,
  get: unasked,
  expand: unasked,
  rename: unasked,
  copy: unasked,
  delete: unasked,
};
const unaskedSnapshots: Snapshots = { create: unasked, list: unasked, restore: unasked, delete: unasked };
const unaskedFiles: Files = { list: unasked, makeFolder: unasked, read: unasked, write: unasked, delete: unasked };
const unaskedCatalog: Catalog = { families: unasked, regions: unasked };
const unaskedImages: Images = { list: unasked, create: unasked, save: unasked, delete: unasked };
const unaskedRegistries: Registries = { create: unasked, list: unasked, delete: unasked };
const unaskedForwarding: Forwarding = {
  route: unasked,
  redeem: unasked,
  session: unasked,
  share: unasked,
  ssh: unasked,
  recordSshLogin: unasked,
  dial: unasked,
  beginTraffic: () => () => {},
  onRevoked: () => () => {},
};
