/** The places of the console, and an account that has something at each. */
import { expect } from 'vitest';
import type { Client } from '../../src/contract/client.ts';
import { launchFirst } from '../fixtures/first-launch.ts';

export interface PlaceIds {
  instance: string;
  volume: string;
  account: string;
}

/** Address of each place. */
export const places: Readonly<Record<string, (ids: PlaceIds) => string>> = {
  instances: () => '/instances',
  'no instance found': () => '/instances?q=no-such-name',
  launch: () => '/launch',
  overview: ({ instance }) => `/instances/${instance}`,
  terminal: ({ instance }) => `/instances/${instance}?tab=terminal`,
  logs: ({ instance }) => `/instances/${instance}?tab=logs`,
  figures: ({ instance }) => `/instances/${instance}?tab=figures`,
  storage: ({ instance }) => `/instances/${instance}?tab=storage`,
  ports: ({ instance }) => `/instances/${instance}?tab=ports`,
  'events of an instance': ({ instance }) => `/instances/${instance}?tab=events`,
  'settings of an instance': ({ instance }) => `/instances/${instance}?tab=settings`,
  volumes: () => '/volumes',
  volume: ({ volume }) => `/volumes/${volume}`,
  images: () => '/images',
  billing: () => '/billing',
  access: () => '/access',
  activity: () => '/activity',
  settings: () => '/settings',
  welcome: () => '/welcome',
  fleet: () => '/operator/fleet',
  'use of the fleet': () => '/operator/fleet?tab=use',
  accounts: () => '/operator/accounts',
  account: ({ account }) => `/operator/accounts/${account}`,
  catalog: () => '/operator/catalog',
  health: () => '/operator/health',
  orphans: () => '/operator/orphans',
  audit: () => '/operator/audit',
  'no such page': () => '/instances/none/such',
};

/** Gives the account a running instance and a volume. */
export async function furnish(client: Client): Promise<PlaceIds> {
  const { userId } = await client.userInfo();
  const { regions } = await client.listRegions();
  const region = regions[0]?.regionId ?? expect.fail('no region');
  const { volume } = await client.createVolume({ name: 'data', sizeGB: 1, region, volumeType: 'filesystem' });
  const { instanceId } = await launchFirst(client, { name: 'seen', initScript: '', nodePorts: [8000] });
  return { account: userId, volume: volume.id, instance: instanceId };
}
