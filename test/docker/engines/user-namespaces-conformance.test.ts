/** The Docker engine conforms to the engine contract with user namespaces. */
import { chmod, stat } from 'node:fs/promises';
import { endpointOf } from '../../../src/docker/docker-client.ts';
import { describeConformance } from '../../conformance/engine.ts';
import { startOwnEngine } from '../e2e/test-engine.ts';
import { makeDockerFixture } from './docker-fixture.ts';

const TUN = '/dev/net/tun';

/** As many ids as a rootless Docker inside needs. */
const ids = { user: 'news', first: 2_147_483_648, count: 1_879_179_264 };

describeConformance('docker with user namespaces', async () => {
  const { mode } = await stat(TUN);
  const daemon = await startOwnEngine({ ids });
  const stopDaemon = async (): Promise<void> => {
    await chmod(TUN, mode & 0o777);
    await daemon.stop();
  };
  try {
    await chmod(TUN, 0o666);
    const fixture = await makeDockerFixture(endpointOf(daemon.dockerHost));
    const lacks = { ...fixture.lacks, forwarding: "the firewall is of the machine's daemon" };
    const stop = async (): Promise<void> => {
      try {
        await fixture.stop();
      } finally {
        await stopDaemon();
      }
    };
    return { ...fixture, lacks, stop };
  } catch (error) {
    await stopDaemon();
    throw error;
  }
});
