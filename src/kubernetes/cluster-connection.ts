/**
 * Credentials and address of a cluster. The client library reads kubeconfig files, refreshes tokens
 * and builds proxies; it is loaded with the first region that uses it (90 MB).
 */
import { existsSync } from 'node:fs';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent, type RequestOptions } from 'node:https';
import type { KubeConfig } from '@kubernetes/client-node';

export type ClusterCredentials =
  | {
      kind: 'token';
      /** `https://host:6443`; a path in it is kept. */
      apiUrl: string;
      /** PEM; absent: the authorities of the system. */
      ca?: string | undefined;
      token: string;
    }
  | { kind: 'kubeconfig'; text: string }
  /** Service account of the Pod that Berth runs in. */
  | { kind: 'inCluster' };

export interface ConnectionOptions {
  headers: Record<string, string>;
  /** Name and password. */
  auth?: string | undefined;
  ca?: RequestOptions['ca'];
  cert?: RequestOptions['cert'];
  key?: RequestOptions['key'];
  rejectUnauthorized?: boolean | undefined;
  servername?: string | undefined;
  /** Keeps idle connections, unless it is that of a proxy. */
  agent: HttpAgent;
  /** Agent of a proxy, for WebSockets. */
  proxyAgent?: HttpAgent | undefined;
}

export interface ClusterConnection {
  server: URL;
  /** Headers, certificates and agent of the next request. */
  options(): Promise<ConnectionOptions>;
  stop(): void;
}

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

/** Throws with a message for the operator. */
export async function connectCluster(credentials: ClusterCredentials): Promise<ClusterConnection> {
  const { KubeConfig: Config } = await import('@kubernetes/client-node');
  const config = new Config();
  switch (credentials.kind) {
    case 'token':
      useToken(config, credentials);
      break;
    case 'kubeconfig':
      useKubeconfig(config, credentials);
      break;
    case 'inCluster':
      if (!existsSync(`${SERVICE_ACCOUNT}/token`))
        throw new Error('Berth does not run in a cluster; give the region a kubeconfig, or an address and a token');
      config.loadFromCluster();
      break;
  }
  const cluster = config.getCurrentCluster();
  if (cluster === null) throw new Error('the kubeconfig has no cluster for its current context; set current-context');
  const server = new URL(cluster.server);
  const agent = server.protocol === 'https:' ? new HttpsAgent({ keepAlive: true }) : new HttpAgent({ keepAlive: true });
  const usesProxy = cluster.proxyUrl !== undefined && cluster.proxyUrl !== '';
  return {
    server,
    async options() {
      const options: RequestOptions = {};
      await config.applyToHTTPSOptions(options);
      const { headers = {}, auth, ca, cert, key, rejectUnauthorized, servername } = options;
      const proxyAgent = usesProxy && options.agent instanceof HttpAgent ? options.agent : undefined;
      return {
        headers: {
          ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)])),
          'User-Agent': 'berth',
        },
        auth: auth ?? undefined,
        ca,
        cert,
        key,
        rejectUnauthorized,
        servername,
        agent: proxyAgent ?? agent,
        proxyAgent,
      };
    },
    stop: () => agent.destroy(),
  };
}

function useToken(config: KubeConfig, { apiUrl, ca, token }: Extract<ClusterCredentials, { kind: 'token' }>): void {
  if (!URL.canParse(apiUrl) || !/^https?:$/.test(new URL(apiUrl).protocol))
    throw new Error(`"${apiUrl}" is not the address of an API server; use https://host:6443`);
  const caData = ca === undefined ? undefined : Buffer.from(ca).toString('base64');
  const skipTLSVerify = apiUrl.startsWith('http:');
  config.loadFromClusterAndUser(
    { name: 'region', server: apiUrl.replace(/\/+$/, ''), skipTLSVerify, ...(caData === undefined ? {} : { caData }) },
    { name: 'region', token },
  );
}

const NAMES_TOKEN_FILE = 'the kubeconfig names a file with its token; write the token itself into it ("token")';
const TOKEN_FILE = /\btoken-?file["']?\s*:/i;

/** Refuses programs and files of this machine: the text comes from the API, not from its owner. */
function useKubeconfig(config: KubeConfig, { text }: Extract<ClusterCredentials, { kind: 'kubeconfig' }>): void {
  // The library reads the file while it parses.
  if (TOKEN_FILE.test(text)) throw new Error(NAMES_TOKEN_FILE);
  try {
    config.loadFromString(text);
  } catch (error) {
    throw new Error('the kubeconfig is not valid; paste the output of `kubectl config view --flatten --minify`', {
      cause: error,
    });
  }
  const user = config.getCurrentUser();
  const cluster = config.getCurrentCluster();
  if (user === null || cluster === null) {
    const names = config.getContexts().map(({ name }) => name);
    throw new Error(
      `the kubeconfig has no context "${config.getCurrentContext()}"; it has ${names.join(', ') || 'none'}`,
    );
  }
  // YAML can write the name of the field in other ways.
  if (user.token !== undefined && !text.includes(user.token)) throw new Error(NAMES_TOKEN_FILE);
  if (user.exec !== undefined || user.authProvider !== undefined)
    throw new Error(
      'the kubeconfig runs a program to log in, which a server has not; use a token of a service account, or a certificate',
    );
  if ([user.certFile, user.keyFile, cluster.caFile].some((file) => file !== undefined))
    throw new Error('the kubeconfig names files; paste the output of `kubectl config view --flatten --minify --raw`');
}
