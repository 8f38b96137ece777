/** Changes the host's network from a container that shares it: needs no tool of the host. */
import type Docker from 'dockerode';

/** Runs a busybox script (`ip …`). `imageRef` has busybox. */
export async function inHostNetwork(docker: Docker, imageRef: string, script: string): Promise<void> {
  const container = await docker.createContainer({
    Image: imageRef,
    Entrypoint: ['/bin/sh', '-ec', script],
    HostConfig: { NetworkMode: 'host', CapAdd: ['NET_ADMIN'] },
  });
  try {
    await container.start();
    const { StatusCode } = await container.wait();
    if (StatusCode !== 0) throw new Error(`${script} ended with ${StatusCode}: ${await saidBy(container)}`);
  } finally {
    await container.remove({ force: true });
  }
}

const saidBy = async (container: Docker.Container): Promise<string> =>
  (await container.logs({ follow: false, stdout: true, stderr: true })).toString('utf8');
