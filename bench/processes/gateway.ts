/**
 * The gateway of role `gateway`, following an API over its socket, with all instance connections
 * led to one local port. Uses Node's module cache like `src/main/berth.mjs`.
 */
import { enableCompileCache } from 'node:module';
import { connect } from 'node:net';
import type { Config } from '../../src/main/config.ts';

enableCompileCache();

const { z } = await import('zod');
const { followLink } = await import('../../src/edge/link/follow-control.ts');
const { bindGateway } = await import('../../src/main/start-gateway.ts');
const { linkAddresses } = await import('../../src/main/link-addresses.ts');
const { answerAsks, settingsOf } = await import('../lib/child.ts');
const { configOf, quietLog, serverSettings } = await import('../lib/settings.ts');

const settings = settingsOf(serverSettings.extend({ dialTo: z.number() }));
// The settings are those of the API's process.
const config: Config = { ...configOf(settings), role: 'gateway' };
const following = followLink({ address: (await linkAddresses(config)).api, log: quietLog });
const { issuer } = await following.ready;
const { forwarding, notebookBar, authenticate, wake } = following;
const gateway = await bindGateway(config, quietLog);
const dialTo = async () => connect({ host: '127.0.0.1', port: settings.dialTo, noDelay: true });
await gateway.attach({
  forwarding: {
    ...forwarding,
    dial: dialTo,
    dialLoopback: dialTo,
  },
  notebookBar,
  authenticate,
  wake,
  issuer,
  apiUrl: 'http://127.0.0.1',
  log: quietLog,
});

answerAsks(
  async () => ({ port: gateway.port }),
  async () => {
    await gateway.stop();
    await following.stop();
  },
);
