import type { Forwarding, IdentifyCredential, Log, NotebookBar, Wake } from '../../control/index.ts';
import type { Certificates } from '../tls-files.ts';
import type { GatewayLimits } from './gateway-limits.ts';

export interface GatewayDeps {
  forwarding: Forwarding;
  notebookBar: NotebookBar;
  authenticate: IdentifyCredential;
  wake: Wake;
  log: Log;
  /** URL of the console, for links on pages. */
  apiUrl: string;
  /** `iss` of access tokens; a token with this issuer never reaches an instance. */
  issuer: string;
  /** Origin that browsers see behind a TLS proxy; default: from the Host header. */
  publicOrigin?: string | undefined;
  /** Addresses and CIDR ranges whose `X-Forwarded-*` headers count. */
  trustedProxies?: readonly string[] | undefined;
  /** Lower-case parent domain of `<port>-<instanceId>` hosts, with a non-default port. */
  portDomain?: string | null | undefined;
  tls?: Certificates | undefined;
  /** Folder with the scripts of JupyterLab; null: notebooks serve their own. */
  toolsFolder?: string | null | undefined;
  limits?: Partial<GatewayLimits> | undefined;
  elapsed?: (() => number) | undefined;
}
