/** A Berth under test: addresses, and the typed client of the contract. */
import { z } from 'zod';
import { makeClient } from '../../src/contract/client.ts';
import { startChild, type Child } from './child.ts';
import type { Core } from './machine.ts';
import { PASSWORD, type ServerSettings } from './settings.ts';

const about = z.object({
  apiUrl: z.string(),
  gatewayUrl: z.string(),
  example: z.object({ region: z.string(), imageId: z.string(), instanceTypeId: z.string() }),
});

export interface Berth extends z.infer<typeof about> {
  child: Child;
  apiPort: number;
  /** Value of the cookie header, and its token. */
  login(username: string): Promise<{ cookie: string; token: string }>;
  /** Creates an account with money; returns a token. */
  newAccount(username: string): Promise<string>;
  client(token: string): ReturnType<typeof makeClient>;
}

export async function startBerth(settings: ServerSettings, core: Core = 0): Promise<Berth> {
  const child = startChild('server.ts', core, settings);
  const reported = await child.ask('about', about);
  const baseUrl = `${reported.apiUrl}/api`;
  return {
    ...reported,
    child,
    apiPort: Number(new URL(reported.apiUrl).port),
    async login(username) {
      const { accessToken } = await makeClient({ baseUrl }).login({ username, password: PASSWORD });
      return { cookie: `AccessToken=${accessToken}`, token: accessToken };
    },
    async newAccount(username) {
      const admin = await makeClient({ baseUrl }).login({ username: 'admin', password: PASSWORD });
      const client = makeClient({ baseUrl, credential: { kind: 'token', token: admin.accessToken } });
      await client.createUser({ username, email: `${username}@bench.test`, password: PASSWORD, balance: 1_000 });
      return (await makeClient({ baseUrl }).login({ username, password: PASSWORD })).accessToken;
    },
    client: (token) => makeClient({ baseUrl, credential: { kind: 'token', token } }),
  };
}

export const launchBody = ({ example }: Pick<Berth, 'example'>) => ({
  name: 'an instance of the bench, señor',
  imageId: example.imageId,
  instanceTypeId: example.instanceTypeId,
  region: example.region,
  billing: { chargeMode: 'perHour' as const, duration: 1 },
  remoteStorages: [],
  instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: '' },
  nodePorts: [8000],
});
