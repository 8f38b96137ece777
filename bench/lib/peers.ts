/**
 * Proxies for comparison, each with one fixed upstream and no access check, and the upstream. Each
 * is a process on one core.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { Need } from '../../scripts/lib/apt.mjs';
import { startChild } from './child.ts';
import { startForeign, type Served } from './external-server.ts';
import type { Core } from './machine.ts';
import { freePort } from './program.ts';

export const peerNeeds: Need[] = [
  { apt: 'nginx', programs: ['nginx'], service: 'nginx', why: 'stands behind the proxies, and is one' },
  { apt: 'caddy', programs: ['caddy'], service: 'caddy', why: 'is a proxy to be measured against' },
];

const about = z.object({ port: z.number() });

/** Starts a program of `processes/`. */
export async function servedBy(program: string, core: Core, settings: unknown): Promise<Served> {
  const child = startChild(program, core, settings);
  try {
    const { port } = await child.ask('about', about);
    return { pid: child.pid, port, stop: () => child.stop() };
  } catch (error) {
    await child.stop();
    throw error;
  }
}

async function startNginx(folder: string, core: Core, inside: (port: number) => string): Promise<Served> {
  const port = await freePort();
  await mkdir(folder, { recursive: true });
  const file = join(folder, 'nginx.conf');
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  const lines = [
    'daemon off; master_process off; worker_processes 1;',
    `pid ${join(folder, 'pid')}; error_log stderr;`,
    'events { worker_connections 4096; }',
    'http {',
    '  access_log off; keepalive_requests 1000000000; keepalive_timeout 1h;',
    ...temporary.map((name) => `  ${name}_temp_path ${join(folder, name)};`),
    inside(port),
    '}',
  ];
  await writeFile(file, `${lines.join('\n')}\n`);
  return startForeign(['nginx', '-p', folder, '-c', file], { port, core });
}

/** Answers every request with `bytes` bytes. */
export const startUpstream = (folder: string, core: Core, bytes: number): Promise<Served> =>
  startNginx(
    join(folder, 'upstream'),
    core,
    (port) => `server { listen 127.0.0.1:${port} backlog=1024; location / { return 200 "${'x'.repeat(bytes)}"; } }`,
  );

export const startNginxProxy = (folder: string, to: number): Promise<Served> =>
  startNginx(
    join(folder, 'proxy'),
    0,
    (port) =>
      `upstream inside { server 127.0.0.1:${to}; keepalive 256; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port} backlog=1024;
    location / { proxy_pass http://inside; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }`,
  );

export async function startCaddy(folder: string, to: number): Promise<Served> {
  const port = await freePort();
  const home = join(folder, 'caddy');
  await mkdir(home, { recursive: true });
  const file = join(home, 'Caddyfile');
  const text = `{
  admin off
  auto_https off
  log default {
    level ERROR
  }
}
http://127.0.0.1:${port} {
  bind 127.0.0.1
  reverse_proxy 127.0.0.1:${to} {
    transport http {
      keepalive_idle_conns_per_host 256
    }
  }
}
`;
  await writeFile(file, text);
  const env = { GOMAXPROCS: '1', HOME: home, XDG_DATA_HOME: home, XDG_CONFIG_HOME: home };
  return startForeign(['caddy', 'run', '--config', file, '--adapter', 'caddyfile'], { port, core: 0, env });
}

const CONFIGURABLE = fileURLToPath(
  new URL('../../node_modules/configurable-http-proxy/bin/configurable-http-proxy', import.meta.url),
);

/** Configured as in JupyterHub, with one route. */
export async function startConfigurable(to: number): Promise<Served> {
  const port = await freePort();
  const args = ['--ip', '127.0.0.1', '--port', String(port), '--api-ip', '127.0.0.1', '--api-port'];
  const more = [String(await freePort()), '--default-target', `http://127.0.0.1:${to}`, '--log-level', 'error'];
  const env = { CONFIGPROXY_AUTH_TOKEN: 'a token of the benches' };
  return startForeign([process.execPath, CONFIGURABLE, ...args, ...more], { port, core: 0, env });
}
