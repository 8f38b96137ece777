/** Clients of the API server for the administrator. */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { Agent, fetch } from 'undici';
import type { Layout } from './addresses.ts';
import type { Pki } from './pki.ts';

export interface Client {
  /** Returns stdout; throws with stderr unless it succeeds. */
  kubectl(args: readonly string[], input?: string): Promise<string>;
  /** Applies manifests on the server's side: objects, or YAML. */
  apply(...manifests: readonly (object | string)[]): Promise<void>;
  /** A request to the API server, answered by status and JSON or text. */
  request(method: string, path: string, body?: object): Promise<{ status: number; body: unknown }>;
  close(): Promise<void>;
}

export interface ClientOptions {
  layout: Layout;
  pki: Pki;
  folder: string;
  programs: string;
}

export function makeClient({ layout, pki, folder, programs }: ClientOptions): Client {
  const agent = new Agent({ connect: { ca: pki.ca } });
  const client: Client = {
    async kubectl(args, input) {
      const where = [`--kubeconfig=${folder}/config/admin.kubeconfig`, `--cache-dir=${folder}/kubectl`];
      const ended = await runHost(path.join(programs, 'kubernetes'), ['kubectl', ...where, ...args], input);
      if (ended.code !== 0) throw new Error(`kubectl ${args.join(' ')} ended with ${ended.code}: ${ended.stderr}`);
      return ended.stdout;
    },
    async apply(...manifests) {
      const documents = manifests.map((one) => (typeof one === 'string' ? one : JSON.stringify(one)));
      await client.kubectl(['apply', '--server-side', '--force-conflicts', '-f', '-'], documents.join('\n---\n'));
    },
    async request(method, at, body) {
      const answer = await fetch(`${layout.apiUrl}${at}`, {
        method,
        headers: { authorization: `Bearer ${pki.tokens.admin}`, 'content-type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
        dispatcher: agent,
        signal: AbortSignal.timeout(30_000),
      });
      const said = await answer.text();
      return { status: answer.status, body: said.startsWith('{') ? JSON.parse(said) : said };
    },
    close: () => agent.destroy(),
  };
  return client;
}

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

export async function runHost(program: string, args: readonly string[], input = ''): Promise<Ended> {
  const child = spawn(program, args, { stdio: 'pipe' });
  const exited = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', resolve);
  });
  child.stdin.on('error', () => {}).end(input);
  const [code, stdout, stderr] = await Promise.all([exited, text(child.stdout), text(child.stderr)]);
  return { code, stdout, stderr };
}
