/** Certificates and tokens of a cluster. A kept folder keeps them. */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { generate } from 'selfsigned';
import { layoutOf, nodeNames, type Layout } from './addresses.ts';

/** Owners of tokens, each with its user and group. */
const users = {
  admin: ['admin', 'system:masters'],
  controllers: ['system:kube-controller-manager', ''],
  scheduler: ['system:kube-scheduler', ''],
  proxy: ['system:kube-proxy', ''],
  'kubelet-of-node': ['system:node:node', 'system:nodes'],
  'kubelet-of-node-2': ['system:node:node-2', 'system:nodes'],
  'kubelet-of-node-3': ['system:node:node-3', 'system:nodes'],
} as const;

export type Identity = keyof typeof users;

export const identities = Object.keys(users) as Identity[];

export interface Pki {
  /** Certificate of the authority in PEM. */
  ca: string;
  tokens: Record<Identity, string>;
}

/**
 * Writes the files that components name: `ca`, `node` and `accounts` with the ends `.crt`, `.key`
 * and `.pub`, and `tokens.csv`. One certificate serves the API server and the kubelets, and is the
 * API server's for its own requests to the kubelets and to extension API servers.
 */
export async function ensurePki(folder: string, layout: Layout): Promise<Pki> {
  const at = (name: string): string => path.join(folder, name);
  const kept = await readFile(at('pki.json'), 'utf8').catch(() => undefined);
  if (kept !== undefined) {
    const { name, ...pki } = JSON.parse(kept) as Pki & { name: string };
    if (name === layout.name) return pki;
    throw new Error(`${folder} belongs to ${name}, not to ${layout.name}: start it with the number in that name.`);
  }
  await mkdir(folder, { recursive: true });

  const days = { notAfterDate: new Date(Date.now() + 3650 * 86_400_000), keyType: 'ec', algorithm: 'sha256' } as const;
  const ca = await generate([{ name: 'commonName', value: layout.name }], {
    ...days,
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, digitalSignature: true, critical: true },
    ],
  });
  const service = ['', '.default', '.default.svc', '.default.svc.cluster.local'].map((rest) => `kubernetes${rest}`);
  const names = ['localhost', ...nodeNames, ...service];
  const nodes = nodeNames.map((_, index) => layoutOf(layout.number, index).nodeAddress);
  const addresses = ['127.0.0.1', ...nodes, layout.apiServiceAddress];
  const subject = [
    { name: 'commonName', value: 'node' },
    { shortName: 'O', value: 'system:masters' },
  ];
  const node = await generate(subject, {
    ...days,
    ca: { key: ca.private, cert: ca.cert },
    extensions: [
      { name: 'keyUsage', digitalSignature: true, critical: true },
      { name: 'extKeyUsage', serverAuth: true, clientAuth: true },
      {
        name: 'subjectAltName',
        altNames: [
          ...names.map((value) => ({ type: 2 as const, value })),
          ...addresses.map((ip) => ({ type: 7 as const, ip })),
        ],
      },
    ],
  });
  const accounts = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });

  const tokens = Object.fromEntries(identities.map((name) => [name, randomBytes(16).toString('hex')])) as Pki['tokens'];
  const rows = identities.map((name) => {
    const [user, group] = users[name];
    return `${tokens[name]},${user},${user},${group}\n`;
  });
  const files = {
    'ca.crt': ca.cert,
    'ca.key': ca.private,
    'node.crt': node.cert,
    'node.key': node.private,
    'accounts.key': accounts.privateKey,
    'accounts.pub': accounts.publicKey,
    'tokens.csv': rows.join(''),
    'pki.json': JSON.stringify({ name: layout.name, ca: ca.cert, tokens }),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(at(name), text, { mode: 0o600 });
  return { ca: ca.cert, tokens };
}

/** A kubeconfig that holds all it needs, for clients on any host that reaches the node. */
export function kubeconfigOf(layout: Layout, pki: Pki, identity: Identity): string {
  const ca = Buffer.from(pki.ca).toString('base64');
  return `${JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: layout.name, cluster: { server: layout.apiUrl, 'certificate-authority-data': ca } }],
    users: [{ name: identity, user: { token: pki.tokens[identity] } }],
    contexts: [{ name: layout.name, context: { cluster: layout.name, user: identity } }],
    'current-context': layout.name,
  })}\n`;
}
