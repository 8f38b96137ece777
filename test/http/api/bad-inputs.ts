/**
 * Named bad (and odd but valid) inputs with their routes. The replies are pinned in
 * `test/expected/bad-inputs.json`.
 */
import { launchRequest } from './harness.ts';
import { ids } from './control-fixture.ts';
import { labels, LONG, MANY, names, pageNumbers } from './bad-values.ts';

export interface BadInput {
  name: string;
  route: string;
  /** A string is sent as is, for bodies that `JSON.stringify` can't write. */
  body: unknown;
}

const substituted = (body: object, mark: string, json: string): string =>
  JSON.stringify(body).replace(JSON.stringify(mark), () => json);

const volume = (changed: object): object => ({
  name: 'v',
  sizeGB: 1,
  region: ids.region,
  volumeType: 'filesystem',
  ...changed,
});

function launch(changed: object): object {
  return { ...launchRequest(), ...changed };
}
const configured = (changed: object): object =>
  launch({ instanceConfiguration: { ...launchRequest().instanceConfiguration, ...changed } });
const billed = (chargeMode: unknown, duration: unknown): object => launch({ billing: { chargeMode, duration } });
const mounted = (...mountPaths: string[]): object =>
  launch({
    remoteStorages: mountPaths.map((mountPath) => ({
      mountPath,
      remoteStorageName: 'v',
      remoteStorageId: '00000000-0000-4000-8000-000000000000',
      type: 'filesystem',
    })),
  });

/** An unknown volume: otherwise valid requests get as far as its lookup. */
const NOBODY = 'notebook-00000000-0000-4000-8000-000000000000';
const command = (given: unknown, more: object = {}): object => ({ instanceId: NOBODY, command: given, ...more });
const NO_VOLUME = '00000000-0000-4000-8000-000000000000';
const EXPAND = '/storage/volume/expand';
const RENAME = '/storage/volume/rename';
const COPY = '/storage/volume/copy';
const SNAPSHOT = '/storage/snapshot/create';
const RESTORE = '/storage/snapshot/restore';
const LOGS = '/instance/logs';
const CREATE = '/instance/create';
const VOLUME = '/storage/volume/create';
const of = (route: string, what: string, bodies: Record<string, unknown>): BadInput[] =>
  Object.entries(bodies).map(([name, body]) => ({ name: `${what}: ${name}`, route, body }));
const each = <T>(values: Record<string, T>, bodyOf: (value: T) => unknown): Record<string, unknown> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, bodyOf(value)]));

const FIRST_PAGE = { pager: { currentPage: 1, pageSize: 10 } };

export const badInputs: BadInput[] = [
  ...of(
    '/instance/list',
    'pageSize',
    each(pageNumbers, (json) => `{"pager":{"currentPage":1,"pageSize":${json}}}`),
  ),
  ...of(
    '/instance/list',
    'currentPage',
    each(pageNumbers, (json) => `{"pager":{"currentPage":${json},"pageSize":10}}`),
  ),
  ...of('/storage/volume/list', 'pager', {
    none: {},
    null: { pager: null },
    array: { pager: [] },
    text: { pager: '1' },
    empty: { pager: {} },
    'page past the end': { pager: { currentPage: 1_000_000_000, pageSize: 500 } },
  }),
  ...of(
    CREATE,
    'name',
    each(names, (name) => launch({ name })),
  ),
  ...of(
    VOLUME,
    'name',
    each(names, (name) => volume({ name })),
  ),
  ...of(VOLUME, 'sizeGB', {
    ...each(pageNumbers, (json) => substituted(volume({ sizeGB: '?' }), '?', json)),
    tiny: volume({ sizeGB: 1e-9 }),
    'a million million': volume({ sizeGB: 1e12 }),
    'most and one': volume({ sizeGB: 100_001 }),
  }),
  ...of(EXPAND, 'sizeGB', {
    ...each(pageNumbers, (json) => substituted({ id: NO_VOLUME, sizeGB: '?' }, '?', json)),
    'a million million': { id: NO_VOLUME, sizeGB: 1e12 },
    none: { id: NO_VOLUME },
    'good, but no such volume': { id: NO_VOLUME, sizeGB: 5 },
  }),
  ...of(
    RENAME,
    'name',
    each(names, (name) => ({ id: NO_VOLUME, name })),
  ),
  ...of(COPY, 'copy', {
    'name with a slash': { id: NO_VOLUME, name: 'a/b' },
    'emoji for a name': { id: NO_VOLUME, name: 'rocket 🚀' },
    'size zero': { id: NO_VOLUME, name: 'a', sizeGB: 0 },
    'size null': { id: NO_VOLUME, name: 'a', sizeGB: null },
    'a million million GB': { id: NO_VOLUME, name: 'a', sizeGB: 1e12 },
    'unknown type': { id: NO_VOLUME, name: 'a', volumeType: 'tape' },
    'good, but no such volume': { id: NO_VOLUME, name: 'a' },
  }),
  ...of(SNAPSHOT, 'name', {
    ...each(names, (name) => ({ volumeId: NO_VOLUME, name })),
    'no volume': { name: 'a' },
    'id as array': { volumeId: [NO_VOLUME], name: 'a' },
  }),
  ...of(RESTORE, 'restore', {
    'quotes in the name': { id: NO_VOLUME, name: `a"b'c` },
    '300 characters': { id: NO_VOLUME, name: 'n'.repeat(300) },
    'half a GB': { id: NO_VOLUME, name: 'a', sizeGB: 0.5 },
    'minus one GB': { id: NO_VOLUME, name: 'a', sizeGB: -1 },
    'good, but no such snapshot': { id: NO_VOLUME, name: 'a' },
  }),
  ...of('/storage/snapshot/delete', 'id', { empty: { id: '' }, NUL: { id: 'a\0b' }, unknown: { id: NO_VOLUME } }),
  ...of('/storage/volume/get', 'id', { empty: { id: '' }, number: { id: 7 }, unknown: { id: NO_VOLUME } }),
  ...of(VOLUME, 'volumeType', {
    'other case': volume({ volumeType: 'Filesystem' }),
    unknown: volume({ volumeType: 'tape' }),
    empty: volume({ volumeType: '' }),
    'property of objects': volume({ volumeType: 'constructor' }),
  }),
  ...of(VOLUME, 'region', {
    unknown: volume({ region: 'nowhere' }),
    empty: volume({ region: '' }),
    NUL: volume({ region: 'a\0b' }),
    'a quote of SQL': volume({ region: "' or 1=1 --" }),
    '101 characters': volume({ region: 'r'.repeat(101) }),
  }),
  ...of(CREATE, 'imageId', {
    unknown: launch({ imageId: '00000000-0000-4000-8000-000000000000' }),
    empty: launch({ imageId: '' }),
    'lone surrogate': launch({ imageId: '\ud800' }),
  }),
  ...of(CREATE, 'instanceTypeId', { unknown: launch({ instanceTypeId: 'no-such-type' }) }),
  ...of(CREATE, 'region', { unknown: launch({ region: 'no-such-region' }) }),
  ...of(CREATE, 'ids', {
    'in capitals': launch({
      imageId: ids.image.toUpperCase(),
      instanceTypeId: ids.type.toUpperCase(),
      region: ids.region.toUpperCase(),
    }),
  }),
  ...of('/region/list', 'regions', { 'one whose pool cannot limit the disk of a Docker': {} }),
  ...of(CREATE, 'billing', {
    'two hours': billed('perHour', 2),
    'two tide hours': billed('tidePerHour', 2),
    zero: billed('perDay', 0),
    'a tenth': billed('perWeek', 0.1),
    'a thousand million': billed('perMonth', 1e9),
    'minus one': billed('perDay', -1),
    'other case': billed('PerHour', 1),
    'trailing space': billed('perHour ', 1),
    unknown: billed('perYear', 1),
    empty: billed('', 1),
    text: launch({ billing: 'perHour' }),
    'renewal of hours': launch({ billing: { chargeMode: 'perHour', duration: 1, autoRenew: true } }),
    'resume of days': launch({ billing: { chargeMode: 'perDay', duration: 1, resume: true } }),
    'renewal as text': launch({ billing: { chargeMode: 'perDay', duration: 1, autoRenew: 'yes' } }),
    'huge number': substituted(billed('perMonth', '?'), '?', '1e400'),
    'not a number': substituted(billed('perMonth', '?'), '?', 'NaN'),
    array: launch({ billing: [] }),
  }),
  ...of('/instance/billing', 'options', {
    none: { instanceId: NOBODY },
    'as text': { instanceId: NOBODY, autoRenew: 'true' },
    'as null': { instanceId: NOBODY, resume: null },
    misspelled: { instanceId: NOBODY, autorenew: true },
    'good, but no such instance': { instanceId: NOBODY, autoRenew: true },
  }),
  ...of(CREATE, 'nodePorts', {
    zero: launch({ nodePorts: [0] }),
    'minus one': launch({ nodePorts: [-1] }),
    'just over': launch({ nodePorts: [65_536] }),
    fraction: launch({ nodePorts: [80.5] }),
    'second one wrong': launch({ nodePorts: [80, 70_000] }),
    twice: launch({ nodePorts: [8080, 8080] }),
    'ssh, which is there anyway': launch({ nodePorts: [22] }),
    '33 of them': launch({ nodePorts: Array.from({ length: 33 }, (_, n) => n + 1000) }),
    '3,000 of them': launch({ nodePorts: Array.from({ length: MANY }, (_, n) => n + 1) }),
    'as text': launch({ nodePorts: ['80'] }),
    'null inside': launch({ nodePorts: [null] }),
    nested: launch({ nodePorts: [[80]] }),
    object: launch({ nodePorts: { 0: 80, length: 1 } }),
  }),
  ...of(CREATE, 'isSpotInstance', {
    null: launch({ isSpotInstance: null }),
    text: launch({ isSpotInstance: 'false' }),
    number: launch({ isSpotInstance: 0 }),
    'no such family': launch({ isSpotInstance: true }),
  }),
  ...of(CREATE, 'extraDataDiskSizeDB', {
    ...each(pageNumbers, (json) => substituted(configured({ extraDataDiskSizeDB: '?' }), '?', json)),
    tiny: configured({ extraDataDiskSizeDB: 1e-9 }),
    'under its other spelling it is unknown': configured({ extraDataDiskSizeGB: -1 }),
  }),
  ...of(CREATE, 'dataDiskGB', {
    zero: configured({ dataDiskGB: 0 }),
    one: configured({ dataDiskGB: 1 }),
    fraction: configured({ dataDiskGB: 1.5 }),
    huge: configured({ dataDiskGB: 100_001 }),
    'as text': configured({ dataDiskGB: '5' }),
    null: configured({ dataDiskGB: null }),
    'beside extraDataDiskSizeDB': configured({ dataDiskGB: 5, extraDataDiskSizeDB: 5 }),
  }),
  ...of(CREATE, 'dockerStorageSize', {
    fraction: configured({ dockerStorageSize: 0.5 }),
    negative: configured({ dockerStorageSize: -1 }),
    null: configured({ dockerStorageSize: null }),
  }),
  ...of(CREATE, 'runImageCommand', {
    'as a word': { ...launchRequest(), runImageCommand: 'yes' },
  }),
  ...of(CREATE, 'startCommand', {
    'as an array': { ...launchRequest(), startCommand: ['sh'] },
    NUL: { ...launchRequest(), startCommand: 'a\0b' },
    'one byte too long': { ...launchRequest(), startCommand: '#'.repeat(256 * 1024 + 1) },
  }),
  ...of(CREATE, 'initScript', {
    'CRLF is kept': configured({ initScript: '#!/bin/sh\r\necho hi\r\n' }),
    NUL: configured({ initScript: 'a\0b' }),
    'lone surrogate': configured({ initScript: 'echo \ud800' }),
    'one byte too long': configured({ initScript: '#'.repeat(256 * 1024 + 1) }),
    'too long in bytes, not in characters': configured({ initScript: 'é'.repeat(128 * 1024 + 1) }),
    'as long as may be': configured({ initScript: '#'.repeat(256 * 1024) }),
    '10 MB': configured({ initScript: '#'.repeat(10 * 1024 * 1024) }),
  }),
  ...of(CREATE, 'mountPath', {
    relative: mounted('data'),
    empty: mounted(''),
    root: mounted('/'),
    '/etc': mounted('/etc'),
    'out of where it is': mounted('../x'),
    '/proc': mounted('/proc'),
    'below /proc': mounted('/proc/self'),
    '/dev/shm': mounted('/dev/shm'),
    '/root': mounted('/root'),
    'our own disk': mounted('/root/dataDisk'),
    'dot dot': mounted('/root/../etc'),
    dot: mounted('/root/./x'),
    'doubled slash': mounted('/root//x'),
    'trailing slash': mounted('/root/x/'),
    NUL: mounted('/root/a\0b'),
    newline: mounted('/root/a\nb'),
    colon: mounted('/root/a:ro'),
    'lone surrogate': mounted('/root/\ud800'),
    twice: mounted('/root/x', '/root/x'),
    nested: mounted('/root/x', '/root/x/y'),
    'very long': mounted(`/${'a'.repeat(5000)}`),
    'good, but no such volume': mounted('/root/x'),
    '33 mounts': mounted(...Array.from({ length: 33 }, (_, n) => `/root/m${n}`)),
  }),
  ...of(CREATE, 'body', {
    empty: '',
    'white space': ' \n\t',
    'null literal': 'null',
    number: '7',
    text: '"text"',
    array: '[]',
    'array of a body': JSON.stringify([launchRequest()]),
    'cut short': JSON.stringify(launchRequest()).slice(0, -5),
    'two objects': '{}{}',
    'trailing comma': '{"name":"a",}',
    'single quotes': "{'name':'a'}",
    comment: '{/* no */}',
    'byte order mark': `\ufeff${JSON.stringify(launchRequest())}`,
    'name twice: the last counts': JSON.stringify(launchRequest()).replace('{', '{"name":7,'),
    '__proto__ with all fields': `{"__proto__":${JSON.stringify(launchRequest())}}`,
    'an extra __proto__': JSON.stringify(launchRequest()).replace('{', '{"__proto__":{"isSpotInstance":"x"},'),
    'an extra constructor': JSON.stringify(launchRequest()).replace('{', '{"constructor":{"prototype":{"x":1}},'),
    'unknown members': launch({ unknown: { deep: [1, { a: null }] }, toString: 1 }),
    'unknown member 100,000 deep': JSON.stringify(launchRequest()).replace(
      '{',
      `{"x":${'['.repeat(1e5)}${']'.repeat(1e5)},`,
    ),
    '100,000 deep': '['.repeat(1e5) + ']'.repeat(1e5),
    '100,000 open brackets': '['.repeat(1e5),
    'known member 100,000 deep': JSON.stringify(launch({ billing: '?' })).replace(
      '"?"',
      `${'{"a":'.repeat(1e5)}1${'}'.repeat(1e5)}`,
    ),
    'name 100,000 deep': JSON.stringify(launch({ name: '?' })).replace('"?"', `${'['.repeat(1e5)}${']'.repeat(1e5)}`),
    'half a million items': JSON.stringify(launch({ nodePorts: '?' })).replace('"?"', `[${'0,'.repeat(500_000)}0]`),
    'half a million wrong items': JSON.stringify(launch({ remoteStorages: '?' })).replace(
      '"?"',
      `[${'{},'.repeat(300_000)}{}]`,
    ),
    'one byte over the limit': `"${'a'.repeat(1024 * 1024 - 1)}"`,
    '10 MB': JSON.stringify({ name: 'a'.repeat(10 * 1024 * 1024) }),
  }),
  ...of(LOGS, 'logs', {
    'no instance': {},
    'id as number': { instanceId: 7 },
    'NUL in the id': { instanceId: 'a\0b' },
    'unknown instance': { instanceId: NOBODY },
    'unknown source': { instanceId: NOBODY, source: 'stderr' },
    'other case': { instanceId: NOBODY, source: 'Console' },
    'source null': { instanceId: NOBODY, source: null },
    'tail zero': { instanceId: NOBODY, tail: 0 },
    'tail as text': { instanceId: NOBODY, tail: '5' },
    'limit over the most': { instanceId: NOBODY, limit: 5_001 },
    'half a line': { instanceId: NOBODY, limit: 0.5 },
    'tail and limit': { instanceId: NOBODY, tail: 5, limit: 5 },
    'since before time': { instanceId: NOBODY, sinceUnixMs: -1 },
    'until beyond all dates': { instanceId: NOBODY, untilUnixMs: 8_640_000_000_000_001 },
    'since after until': { instanceId: NOBODY, sinceUnixMs: 2, untilUnixMs: 1 },
    'times of an init script': { instanceId: NOBODY, source: 'init', sinceUnixMs: 5 },
    'after: empty': { instanceId: NOBODY, after: '' },
    'after: of another source': { instanceId: NOBODY, source: 'events', after: '5.1' },
    'after: very long': { instanceId: NOBODY, after: '9'.repeat(100_000) },
    'after: not a place': { instanceId: NOBODY, after: '1e3.1' },
    'after and since': { instanceId: NOBODY, after: '5.1', sinceUnixMs: 5 },
    'after and tail': { instanceId: NOBODY, after: '5.1', tail: 5 },
    'good, but no such instance': { instanceId: NOBODY, after: '5.1', limit: 5, untilUnixMs: 6 },
  }),
  ...of('/user/login', 'login', {
    'no password': { username: 'admin' },
    'password as number': { username: 'admin', password: 7 },
    'NUL in the name': { username: 'ad\0min', password: 'x' },
    'object as name': { username: { $ne: '' }, password: 'x' },
    'very long password': { username: 'admin', password: 'x'.repeat(1025) },
    'unknown name': { username: 'nobody', password: 'not the password' },
    'wrong password': { username: 'admin', password: 'not the password' },
  }),
  ...of('/user/password', 'password', {
    'short, and not shown back': { oldPassword: 'old secret', newPassword: 'short' },
    'long, and not shown back': { oldPassword: 'old secret', newPassword: 'x'.repeat(1025) },
    'four characters of two units': { oldPassword: 'old secret', newPassword: '😀😃😄😁' },
    common: { oldPassword: 'old secret', newPassword: 'P@ssw0rd' },
    'eight spaces': { oldPassword: 'old secret', newPassword: '        ' },
    'a sequence': { oldPassword: 'old secret', newPassword: 'abcd1234efgh' },
    'half of a character': { oldPassword: 'old secret', newPassword: '\ud800 and seven more' },
  }),
  ...of('/user/key/create', 'key', {
    'no name': {},
    'empty name': { name: '' },
    'name as array': { name: ['a'] },
    'no scopes': { name: 'k', scopes: [] },
    'an unknown scope': { name: 'k', scopes: ['read', 'write'] },
    'scopes as text': { name: 'k', scopes: 'read' },
    'an expiry in words': { name: 'k', expiresAtUnixMs: 'tomorrow' },
    'no addresses': { name: 'k', addresses: [] },
    'a host name as address': { name: 'k', addresses: ['office.example'] },
    'too long a prefix': { name: 'k', addresses: ['192.0.2.0/33'] },
  }),
  ...of('/user/sshkey/create', 'ssh key', {
    'no key': { name: 'k' },
    'not a key': { name: 'k', publicKey: 'hello' },
    'two lines': { name: 'k', publicKey: 'ssh-ed25519 AAAA a\nssh-ed25519 BBBB b' },
    'private key': { name: 'k', publicKey: '-----BEGIN OPENSSH PRIVATE KEY-----' },
  }),
  ...of('/user/environment/set', 'variables', {
    nothing: {},
    'as an array': { environment: ['A=1'] },
    'as text': { secrets: 'A=1' },
    'null as value': { secrets: { A: null } },
    'number as value, not shown back': { secrets: { A: 12345 } },
    'NUL, not shown back': { secrets: { A: 'se\0cret' } },
    'empty name': { environment: { '': 'x' } },
    'name with a line': { environment: { 'A\nB': 'x' } },
    'long name': { environment: { ['A'.repeat(LONG)]: 'x' } },
    'reserved name': { environment: { PATH: '/bin' } },
    "Berth's name": { secrets: { BERTH_INSTANCE_ID: 'x' } },
    '3,000 variables': { environment: Object.fromEntries(Array.from({ length: MANY }, (_, at) => [`N${at}`, ''])) },
    'large value': { secrets: { A: 'x'.repeat(33_000) } },
    'too large together': {
      environment: Object.fromEntries(Array.from({ length: 5 }, (_, at) => [`N${at}`, 'x'.repeat(32_000)])),
    },
    'in both': { environment: { A: 'x' }, secrets: { A: 'y' } },
  }),
  ...of('/user/environment/delete', 'variables', {
    'no names': {},
    'number as name': { names: [1] },
    'long name': { names: ['A'.repeat(129)] },
    'name of no variable': { names: ['A-B'] },
    '257 names': { names: Array.from({ length: 257 }, (_, at) => `N${at}`) },
  }),
  ...of('/admin/environment/set', 'variables', { 'by an account': { environment: { A: 'x' } } }),
  ...of('/instance/environment/set', 'variables', {
    'no such instance': { instanceId: NOBODY, environment: { A: 'x' } },
  }),
  ...of('/instance/exec', 'exec', {
    'no command': { instanceId: NOBODY },
    'command as text': command('true'),
    'empty command': command([]),
    'no program': command(['']),
    'empty argument, no such instance': command(['true', '']),
    'number in it': command(['sleep', 1]),
    NUL: command(['true', 'a\0b']),
    'lone surrogate': command(['\ud800']),
    '1,001 words': command(Array.from({ length: 1_001 }, () => 'x')),
    'env as object': command(['true'], { env: { A: '1' } }),
    'env without =': command(['true'], { env: ['A'] }),
    'env without a name': command(['true'], { env: ['=1'] }),
    'NUL in env': command(['true'], { env: ['A=\0'] }),
    'stdin as bytes': command(['cat'], { stdin: [1, 2] }),
    'lone surrogate in stdin': command(['cat'], { stdin: '\udc00' }),
    'no such encoding': command(['cat'], { encoding: 'latin1' }),
    'no base64': command(['cat'], { stdin: '*', encoding: 'base64' }),
    'base64 without its padding': command(['cat'], { stdin: 'YQ', encoding: 'base64' }),
    'no time': command(['true'], { timeoutSeconds: 0 }),
    'too much time': command(['true'], { timeoutSeconds: 601 }),
    'time as text': command(['true'], { timeoutSeconds: '60' }),
  }),
  ...of('/instance/terminal/close', 'terminal', {
    'no name': { instanceId: NOBODY },
    ...each({ ...names, 'a dash first': '-a', 'good, no such instance': 'a.b_c-D' }, (terminal) => ({
      instanceId: NOBODY,
      terminal,
    })),
  }),
  ...of(
    CREATE,
    'labels',
    each(labels, (given) => launchRequest({ labels: given } as object)),
  ),
  ...of('/storage/volume/label', 'labels', {
    ...each(labels, (given) => ({ id: NO_VOLUME, labels: given })),
    none: { id: NO_VOLUME },
    'of an unknown volume': { id: NO_VOLUME, labels: {} },
  }),
  ...of('/instance/update', 'change', {
    nothing: { instanceId: NOBODY },
    'no instance': { name: 'x' },
    'empty name': { instanceId: NOBODY, name: '' },
    'NUL in the name': { instanceId: NOBODY, name: 'a\0b' },
    'name of 129 characters': { instanceId: NOBODY, name: 'n'.repeat(129) },
    'type as number': { instanceId: NOBODY, instanceTypeId: 7 },
    'a port twice': { instanceId: NOBODY, nodePorts: [8080, 8080] },
    '33 ports': { instanceId: NOBODY, nodePorts: Array.from({ length: 33 }, (_, n) => n + 1000) },
    '33 volumes': { instanceId: NOBODY, remoteStorages: Array.from({ length: 33 }, () => ({})) },
    'a volume without a path': { instanceId: NOBODY, remoteStorages: [{ remoteStorageId: 'x' }] },
  }),
  ...of('/instance/start', 'withoutGpu', { 'as text': { instanceId: NOBODY, withoutGpu: 'yes' } }),
  ...of('/instance/update', 'labels', { 'a bad key': { instanceId: NOBODY, labels: { '/': '' } } }),
  ...of('/instance/list', 'labels', { 'a bad value': { ...FIRST_PAGE, labels: { a: 'b c' } } }),
  ...of('/instance/list', 'name', {
    NUL: { ...FIRST_PAGE, name: 'a\0' },
    'lone surrogate': { ...FIRST_PAGE, name: '\ud800' },
    'too long': { ...FIRST_PAGE, name: 'n'.repeat(129) },
    'of a query': { ...FIRST_PAGE, name: "%' or 1=1; --" },
  }),
  ...of('/instance/list', 'status', {
    empty: { ...FIRST_PAGE, status: [] },
    unknown: { ...FIRST_PAGE, status: ['Running', 'Gone'] },
    'too many': { ...FIRST_PAGE, status: Array.from({ length: LONG }, () => 'Running') },
    'withoutReleased as text': { ...FIRST_PAGE, withoutReleased: 'true' },
  }),
];
