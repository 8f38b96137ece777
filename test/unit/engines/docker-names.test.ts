/** Name resolution as an instance does it. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { nameTargetOf, resolveName } from '../../../src/engines/docker/network/names.ts';

const hosts =
  '127.0.0.1\tlocalhost\n::1 localhost ip6-localhost\n# 10.0.0.9 berth-0\n10.0.0.2 Berth-0 other # here\nnonsense\n';
const resolvConf =
  '# by the engine\nsearch one.test two.test\nnameserver 127.0.0.11\nnameserver what\noptions ndots:0\n';

describe('name resolution in an instance', () => {
  test('reads the hosts file, case-insensitively', () => {
    expect(nameTargetOf('LOCALHOST', hosts, resolvConf).addresses).toEqual(['127.0.0.1', '::1']);
    expect(nameTargetOf('berth-0', hosts, resolvConf).addresses).toEqual(['10.0.0.2']);
    expect(nameTargetOf('here', hosts, resolvConf).addresses, 'comments are ignored').toEqual([]);
  });

  test('falls back to the name servers, with the search domains', () => {
    const asked = { addresses: [], servers: ['127.0.0.11'] };
    expect(nameTargetOf('db', hosts, resolvConf)).toEqual({ ...asked, names: ['db.one.test', 'db.two.test', 'db'] });
    expect(nameTargetOf('db.test', hosts, resolvConf).names).toEqual([
      'db.test',
      'db.test.one.test',
      'db.test.two.test',
    ]);
    expect(nameTargetOf('db.test.', hosts, resolvConf).names).toEqual(['db.test.']);
  });

  test('resolves only localhost without files', async () => {
    const none = { hosts: '/nowhere/hosts', resolvConf: '' };
    expect((await resolveName('localhost', none)).addresses).toEqual(['127.0.0.1', '::1']);
    expect(await resolveName('db', none)).toEqual({ addresses: [], names: ['db'], servers: [] });
    expect((await resolveName('192.0.2.1', none)).addresses).toEqual(['192.0.2.1']);
    expect((await resolveName('::1', none)).addresses).toEqual(['::1']);
  });

  test('reads only the beginning of huge files', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'names-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const files = { hosts: path.join(folder, 'hosts'), resolvConf: path.join(folder, 'resolv.conf') };
    await writeFile(files.hosts, `10.0.0.1 near\n${'# \n'.repeat(1_000_000)}10.0.0.2 far\n`);
    await writeFile(files.resolvConf, `${'nameserver 10.0.0.3\n'.repeat(1_000)}search ${'a.test '.repeat(1_000)}`);
    expect((await resolveName('near', files)).addresses).toEqual(['10.0.0.1']);
    const far = await resolveName('far', files);
    expect(far.addresses).toEqual([]);
    expect([far.servers.length, far.names.length]).toEqual([3, 7]);
    await writeFile(files.hosts, '10.0.0.1 many\n'.repeat(4_000));
    expect((await resolveName('many', files)).addresses.length).toBe(8);
  });
});
