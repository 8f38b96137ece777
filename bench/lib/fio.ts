/**
 * Runs fio in a container. The image contains only this machine's fio and libraries, so no registry
 * is needed; host folders are bind-mounted.
 */
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type Docker from 'dockerode';
import { z } from 'zod';
import { ensurePackages } from './packages.ts';

const IMAGE = 'berth-bench/fio:latest';
const US_PER_MS = 1000;

const run = promisify(execFile);

export const ensureFio = (): Promise<void> =>
  ensurePackages([
    { apt: 'fio', programs: ['fio'], why: 'measures disks' },
    { apt: 'xfsprogs', programs: ['mkfs.xfs'], why: 'makes the disks' },
  ]);

/** Creates the image; the caller removes it. */
export async function makeFioImage(docker: Docker): Promise<Docker.Image> {
  const { stdout: program } = await run('which', ['fio']);
  const { stdout: linked } = await run('ldd', [program.trim()]);
  const libraries = [...linked.matchAll(/(?:^|\s)(\/\S+)/gm)].flatMap(([, path]) => path ?? []);
  const tar = spawn('tar', ['--create', '--dereference', '--absolute-names', program.trim(), ...libraries], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const stream = await docker.importImage(tar.stdout, { repo: IMAGE.split(':')[0], tag: IMAGE.split(':')[1] });
  await new Promise<void>((resolve, reject) => {
    docker.modem.followProgress(stream, (error) => (error ? reject(error) : resolve()));
  });
  return docker.getImage(IMAGE);
}

const report = z.object({
  jobs: z.array(
    z.object({
      jobname: z.string(),
      /** Milliseconds, final fsync included. */
      job_runtime: z.number(),
      read: z.object({ io_bytes: z.number() }),
      write: z.object({ io_bytes: z.number() }),
    }),
  ),
});

/** Runs fio once in one container; MB/s (10⁶ bytes) by job. Keys of `folders` are mount paths. */
export async function fio(
  docker: Docker,
  { args, folders, results }: { args: string[]; folders: Record<string, string>; results: string },
): Promise<Map<string, number>> {
  const out = await mkdtemp(join(results, 'fio-'));
  const bound = { ...folders, '/results': out };
  const container = await docker.createContainer({
    Image: IMAGE,
    Cmd: ['fio', '--output-format=json', '--output=/results/report.json', ...args],
    Env: ['PATH=/usr/bin:/bin:/usr/local/bin'],
    Labels: { 'berth.bench': 'fio' },
    HostConfig: {
      NetworkMode: 'none',
      Mounts: Object.entries(bound).map(([Target, Source]) => ({ Type: 'bind', Source, Target })),
    },
  });
  try {
    await container.start();
    const { StatusCode: code } = z.object({ StatusCode: z.number() }).parse(await container.wait());
    if (code !== 0) throw new Error(`fio ended with ${code}: ${await logOf(container)}`);
    const { jobs } = report.parse(JSON.parse(await readFile(join(out, 'report.json'), 'utf8')));
    return new Map(
      jobs.map((job) => [job.jobname, (job.read.io_bytes + job.write.io_bytes) / (job.job_runtime * US_PER_MS)]),
    );
  } finally {
    await container.remove({ force: true });
    await rm(out, { recursive: true });
  }
}

const logOf = async (container: Docker.Container): Promise<string> =>
  (await container.logs({ stdout: true, stderr: true })).toString('utf8');
