/** Compatibility of a client with newer servers. */
import { expect, test } from 'vitest';
import { makeClient } from '../../../src/contract/client.ts';
import { exampleOf } from '../../../src/contract/examples.ts';
import { routes, type JsonRouteName } from '../../../src/contract/routes.ts';

const NEWER = 'OfANewerServer';
const pager = { currentPage: 1, pageSize: 10 };

/** Answers with the example of the route, in which each text `field` has an unknown value. */
const newerServer = (name: JsonRouteName, field: string) => {
  const example = JSON.stringify(exampleOf(routes[name].answer));
  const text = example.replaceAll(new RegExp(`"${field}":"[^"]*"`, 'g'), `"${field}":"${NEWER}"`);
  return makeClient({ baseUrl: 'http://server.test/api', fetch: async () => new Response(text) });
};

test.each(['phase', 'diagnosisReason'])('accepts an unknown %s of an instance', async (field) => {
  const { instances } = await newerServer('listInstances', field).listInstances({ pager });
  expect(instances[0]?.instanceRuntimeInfo).toHaveProperty(field, NEWER);
});

test.each(['status', 'volumeType'])('accepts an unknown %s of a volume', async (field) => {
  const { volumeList } = await newerServer('listVolumes', field).listVolumes({ pager });
  expect(volumeList[0]).toHaveProperty(field, NEWER);
});
