/** Commands inside an instance's container, past Berth. */
import { PassThrough } from 'node:stream';
import type Docker from 'dockerode';
import { text } from 'node:stream/consumers';
import { instanceId } from '../../../src/domain/kernel/ids.ts';
import { containerName } from '../../../src/engines/labels.ts';
import { docker } from '../../fixtures/server-process.ts';

/** Runs a shell command and returns stdout; throws stderr. */
export async function shell(id: string, command: string, engine: Docker = docker): Promise<string> {
  const container = engine.getContainer(containerName(instanceId(id)));
  const exec = await container.exec({ Cmd: ['sh', '-c', command], AttachStdout: true, AttachStderr: true });
  const stream = await exec.start({});
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  engine.modem.demuxStream(stream, stdout, stderr);
  stream.once('end', () => {
    stdout.end();
    stderr.end();
  });
  const [printed, complained] = await Promise.all([text(stdout), text(stderr)]);
  const { ExitCode } = await exec.inspect();
  if (ExitCode !== 0) throw new Error(`${command} ended with ${ExitCode}: ${complained}`);
  return printed;
}

export const hasContainer = (id: string): Promise<boolean> =>
  docker
    .getContainer(containerName(instanceId(id)))
    .inspect()
    .then(
      () => true,
      () => false,
    );

/** Image names on the engine with the prefix. */
export async function namesUnder(prefix: string): Promise<string[]> {
  const all = await docker.listImages();
  return all.flatMap(({ RepoTags }) => (RepoTags ?? []).filter((tag) => tag.startsWith(prefix)));
}
