/** Copies the image of Docker inside, which an engine without a network cannot build. */
import Docker from 'dockerode';
import { endpointOf, makeDockerClient } from '../../src/docker/docker-client.ts';
import { copyDefaultImage } from '../fixtures/default-images.ts';

export default async function setup(): Promise<void> {
  const client = makeDockerClient(endpointOf(process.env['DOCKER_HOST'] ?? ''));
  await copyDefaultImage(client.docker, 'docker-inside', new Docker({ socketPath: '/var/run/docker.sock' }));
  client.stop();
}
