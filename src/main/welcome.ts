/** Text shown after start: addresses, the first account, and a first launch to copy. */
import type { ShownPassword } from './secret-files.ts';
import type { Server } from './server.ts';

export function welcome(
  { apiUrl, gatewayUrl, adminPassword, example }: Pick<Server, 'apiUrl' | 'gatewayUrl' | 'adminPassword' | 'example'>,
  { isTerminal }: { isTerminal: boolean },
): string {
  const shown = isTerminal ? adminPassword : null;
  const password = shown ? shown.text : '<its password>';
  const account = shown
    ? `, password ${shown.text}  (shown only now; stored in ${shown.file})`
    : whereFirstPassword(adminPassword);
  const launch = JSON.stringify({
    name: 'first',
    imageId: example.imageId,
    instanceTypeId: example.instanceTypeId,
    region: example.region,
    billing: { chargeMode: 'perHour', duration: 1 },
    remoteStorages: [],
    instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: '' },
    nodePorts: [8000],
  });
  return `
  Berth is ready.

  API       ${apiUrl}/api
  Gateway   ${gatewayUrl}
  Account   admin${account}

  A first launch to copy:

  TOKEN=$(curl -s ${apiUrl}/api/user/login -H 'content-type: application/json' \\
    -d '{"username":"admin","password":"${password}"}' | sed 's/.*"accessToken":"\\([^"]*\\)".*/\\1/')
  curl -s ${apiUrl}/api/instance/create -H "Authorization: Bearer $TOKEN" -H 'content-type: application/json' \\
    -d '${launch}'
  curl -s ${apiUrl}/api/instance/list -H "Authorization: Bearer $TOKEN" -H 'content-type: application/json' \\
    -d '{"pager":{"currentPage":1,"pageSize":10}}'

`;
}

const whereFirstPassword = (generated: ShownPassword | null): string =>
  generated
    ? `; its password is in the file ${generated.file}`
    : '; its first password is in the file admin-password of the data folder, or was set in BERTH_ADMIN_PASSWORD';
