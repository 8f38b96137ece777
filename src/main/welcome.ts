/** Text shown after start: addresses, the first account, and the command of a first launch. */
import type { ShownPassword } from './secret-files.ts';
import type { Server } from './server.ts';

const DEFAULT_API = 'http://127.0.0.1:8080';
const DEFAULT_FOLDER = '/var/lib/berth';

export interface WelcomeOptions {
  isTerminal: boolean;
  dataFolder: string;
  /** Why the engine does not answer; null: it answers. */
  engineTrouble: string | null;
}

export function welcome(
  { apiUrl, gatewayUrl, adminPassword }: Pick<Server, 'apiUrl' | 'gatewayUrl' | 'adminPassword'>,
  { isTerminal, dataFolder, engineTrouble }: WelcomeOptions,
): string {
  const shown = isTerminal ? adminPassword : null;
  const account = shown
    ? `, password ${shown.text}  (shown only now; stored in ${shown.file})`
    : whereFirstPassword(adminPassword);
  const options = [
    ...(apiUrl === DEFAULT_API ? [] : ['--api', apiUrl]),
    ...(dataFolder === DEFAULT_FOLDER ? [] : ['--password-file', `${dataFolder}/admin-password`]),
  ];
  const command = ['npm run first', ...(options.length > 0 ? ['--', ...options] : [])].join(' ');
  const next =
    engineTrouble === null ? `  A first launch, in another terminal:\n\n  ${command}` : remedies(engineTrouble);
  return `
  Berth is ready.

  API       ${apiUrl}/api
  Gateway   ${gatewayUrl}
  Account   admin${account}

${next}

`;
}

const whereFirstPassword = (generated: ShownPassword | null): string =>
  generated
    ? `; its password is in the file ${generated.file}`
    : '; its first password is in the file admin-password of the data folder, or was set in BERTH_ADMIN_PASSWORD';

const remedies = (engineTrouble: string): string =>
  `
  No instance starts yet: ${engineTrouble}
  - Let this user use Docker: sudo usermod -aG docker $USER, then log in again.
  - Or use a rootless engine: DOCKER_HOST=unix://$XDG_RUNTIME_DIR/docker.sock npm run up
  - Or try Berth without containers: BERTH_ENGINE=simulated npm run up`.slice(1);
