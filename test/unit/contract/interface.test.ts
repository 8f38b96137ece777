/** The contract has exactly the fields of `docs/interface.md`: names, types, required marks. */
import { readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { instance } from '../../../src/contract/compute/instance.ts';
import { routeNames, routeOf, routes } from '../../../src/contract/routes.ts';
import { volume } from '../../../src/contract/storage/volume.ts';
import { errorKinds } from '../../../src/edge/http/status.ts';
import { expectedUrl, fieldsOf, readInterface } from './interface-fields.ts';
import type { InterfaceField, InterfaceFields } from './interface-fields.ts';
import { schemaFields } from './schema-fields.ts';

let fields: InterfaceFields;
beforeAll(async () => {
  fields = fieldsOf(await readInterface());
});

const byPath = (a: { path: string }, b: { path: string }): number => (a.path < b.path ? -1 : 1);
const pathAndType = ({ path, type }: InterfaceField) => ({ path, type });

test("the committed list of fields equals the document's", async () => {
  expect(fields).toEqual(JSON.parse(await readFile(expectedUrl, 'utf8')));
});

test('reads as many fields from the document as counted by hand', () => {
  // §2.1: three members; 3+1 of the metadata; 9 of the spec, 5 billing, 5 image, 4+2 configuration,
  // 6+12 type, 6 region, 3 port; 12+4 of the runtime. §2.2: 8.
  expect(fields.instance).toHaveLength(3 + 4 + 9 + 5 + 5 + 6 + 18 + 6 + 3 + 16);
  expect(fields.volume).toHaveLength(8);
  expect(fields.requests['launch']).toHaveLength(14 + 4 + 4 + 6);
  expect(fields.requests['listInstances']).toHaveLength(3 + 4);
  expect(fields.requests['createVolume']).toHaveLength(5);
});

test('the document lists each error code with its status', async () => {
  const rows = [...(await readInterface()).matchAll(/^\| `(\w+)` \| (\d{3}) \|$/gm)];
  expect(Object.fromEntries(rows.map(([, code, status]) => [code, Number(status)]))).toEqual(
    Object.fromEntries(Object.entries(errorKinds).map(([code, { status }]) => [code, status])),
  );
});

test('the document lists exactly the routes whose errors are `{"message"}`', async () => {
  const [, list = ''] = /body of these routes:\n\n(.*?)\n\n/s.exec(await readInterface()) ?? [];
  const listed = [...list.matchAll(/`(.+?)`/g)].map(([, path]) => path);
  const plain = routeNames.map(routeOf).flatMap(({ errors, path }) => (errors === 'plain' ? [path] : []));
  expect(listed.toSorted()).toEqual(plain.toSorted());
});

describe('answers', () => {
  test('the instance object has every field of §2.1 with its type, and only members of ours besides', () => {
    // remoteStorages of the answer has no table in §2.1: its items are the request's.
    const items = fields.requests['launch']?.filter(({ path }) => path.startsWith('remoteStorages[]')) ?? [];
    const wanted = [
      ...fields.instance.map(pathAndType),
      ...items.map(({ path, type }) => ({ path: `instanceSpecInfo.${path}`, type })),
    ];
    const isOurs = ({ path }: { path: string }) =>
      /^(actions|labels|withoutGpu|pendingChanges|notebook)(\.|\[|$)/.test(path);
    const documented = schemaFields(instance)
      .map(pathAndType)
      .filter((field) => !isOurs(field));
    expect(documented.toSorted(byPath)).toEqual(wanted.toSorted(byPath));
  });

  test('the volume object has the fields of §2.2 with their types, and `labels` besides', () => {
    const ours = [{ path: 'labels', type: 'object' }];
    expect(schemaFields(volume).map(pathAndType)).toEqual([...fields.volume.map(pathAndType), ...ours]);
  });

  test.each(['launch', 'listInstances', 'listVolumes', 'createVolume'] as const)(
    'the answer of %s has the members of §4',
    (name) => {
      const answered = schemaFields(routes[name].answer).map(({ path }) => path);
      const named = fields.answers[name] ?? [];
      expect(named.length).toBeGreaterThan(0);
      for (const { path } of named) expect(answered).toContain(path);
    },
  );

  test('the pager of an answer has the three numbers of §4.2', () => {
    const numbers = schemaFields(routes.listInstances.answer).filter(({ path }) => path.startsWith('pager.'));
    expect(numbers.map(pathAndType)).toEqual(
      ['currentPage', 'pageSize', 'totalEntries'].map((name) => ({ path: `pager.${name}`, type: 'number' })),
    );
  });
});

describe('requests', () => {
  test.each(['launch', 'createVolume'] as const)(
    '%s has each field of §4 with its type, required or not, in the order of the tables',
    (name) => expect(schemaFields(routes[name].body)).toEqual(fields.requests[name]),
  );

  test('listInstances has the pager and the filters of §4.2, listVolumes those of name and labels; besides an optional sort', () => {
    const wanted = fields.requests['listInstances'] ?? [];
    const fieldsOf = (name: 'listInstances' | 'listVolumes') => {
      const all = schemaFields(routes[name].body).toSorted(byPath);
      expect(all.find(({ path }) => path === 'sort')).toMatchObject({ required: false });
      return all.filter(({ path }) => path !== 'sort' && !path.startsWith('sort.'));
    };
    expect(fieldsOf('listInstances')).toEqual(wanted.toSorted(byPath));
    const ofInstances = ['status', 'withoutReleased'];
    expect(fieldsOf('listVolumes')).toEqual(wanted.filter(({ path }) => !ofInstances.includes(path)).toSorted(byPath));
  });

  test('every field with a default in §4.1 gets it', () => {
    const launch = routes.launch.body.parse({
      name: 'n',
      imageId: 'i',
      instanceTypeId: 't',
      region: 'r',
      billing: { chargeMode: 'perHour', duration: 1 },
      remoteStorages: [],
      instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: '' },
      nodePorts: [],
    });
    expect(launch.isSpotInstance).toBe(false);
    expect(launch.instanceConfiguration).toMatchObject({ extraDataDiskSizeDB: 0, dockerStorageSize: 0 });
  });
});
