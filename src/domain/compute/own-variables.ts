/** Variables that Berth itself gives to an instance's programs: the weakest layer. Pure. */
import type { Environment } from './environment.ts';
import type { Instance } from './instance.ts';
import { notebookPath } from './public-instance.ts';

/** How instances reach the networks of the operator; absent members: directly. */
export interface InstanceNetwork {
  /** Part of the start script: `images/networks.sh`. */
  script?: string | undefined;
  /** Certificates in PEM; `caFolder` of the host has them as `ca.pem`. */
  ca?: string | undefined;
  caFolder?: string | undefined;
  proxy?: string | undefined;
  /** Hosts and domains that need no proxy, besides the instance itself. */
  noProxy?: readonly string[] | undefined;
  pipIndex?: string | undefined;
  aptMirror?: string | undefined;
  dns?: readonly string[] | undefined;
}

/** Made by `images/networks.sh` in memory, so no saved image has it. */
const NETWORK_FOLDER = '/dev/shm/berth-network';
const BUNDLE = `${NETWORK_FOLDER}/ca.pem`;

const LOCAL = ['localhost', '127.0.0.1', '::1'];

/** Sizes of the pools of PyTorch, OpenMP, BLAS, numexpr and Python; `nproc` reads the first. */
export function sizeVariables({ cpuCores }: { cpuCores: number }): Environment {
  const names = ['OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS', 'NUMEXPR_NUM_THREADS'];
  const count = String(Math.ceil(cpuCores));
  return new Map([...names, 'PYTHON_CPU_COUNT'].map((name) => [name, count]));
}

/** Proxy variables, in both spellings: programs disagree. */
export function proxyVariables({ proxy, noProxy = [] }: InstanceNetwork): Environment {
  if (proxy === undefined) return new Map();
  const none = [...LOCAL, ...noProxy].join(',');
  const pairs = [
    ['HTTP_PROXY', proxy],
    ['HTTPS_PROXY', proxy],
    ['NO_PROXY', none],
  ] as const;
  return new Map(pairs.flatMap(([name, value]) => [[name, value] as const, [name.toLowerCase(), value] as const]));
}

export function networkVariables(network: InstanceNetwork): Environment {
  const variables = new Map(proxyVariables(network));
  if (network.ca !== undefined) {
    const names = ['SSL_CERT_FILE', 'REQUESTS_CA_BUNDLE', 'PIP_CERT', 'CURL_CA_BUNDLE', 'GIT_SSL_CAINFO'];
    for (const name of names) variables.set(name, BUNDLE);
    // Adds to the certificates of Node, where the others replace.
    variables.set('NODE_EXTRA_CA_CERTS', '/etc/berth/ca.pem');
  }
  if (network.pipIndex !== undefined) {
    variables.set('PIP_INDEX_URL', network.pipIndex).set('UV_DEFAULT_INDEX', network.pipIndex);
    const { protocol, hostname } = new URL(network.pipIndex);
    if (protocol === 'http:') variables.set('PIP_TRUSTED_HOST', hostname);
  }
  if (network.aptMirror !== undefined) variables.set('APT_CONFIG', `${NETWORK_FOLDER}/apt.conf`);
  return variables;
}

export const ANY_PORT = '{port}';

export interface PortAddresses {
  path: string;
  host: string | null;
}

export const ownVariables = (
  { id, spec }: { id: string; spec: { type: Pick<Instance['spec']['type'], 'cpuCores'> } },
  ports: PortAddresses,
  network: InstanceNetwork = {},
): Environment =>
  new Map([
    ['BERTH_INSTANCE_ID', id],
    ['BERTH_BASE_URL', notebookPath(id)],
    ['BERTH_PORT_PREFIX', ports.host === null ? `/forward/${id}/${ANY_PORT}` : ''],
    ['BERTH_PORT_URL', ports.host ?? ports.path],
    ...sizeVariables(spec.type),
    ...networkVariables(network),
  ]);
