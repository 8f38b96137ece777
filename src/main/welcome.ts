/** Text shown after start: addresses, the first account, and a first launch to copy. */
import type { Server } from './server.ts';

export function welcome({
  apiUrl,
  gatewayUrl,
  adminPassword,
  example,
}: Pick<Server, 'apiUrl' | 'gatewayUrl' | 'adminPassword' | 'example'>): string {
  const password = adminPassword ? adminPassword.text : '<its password>';
  const account = adminPassword
    ? `  Account   admin, password ${adminPassword.text}  (shown only now; stored in ${adminPassword.file})`
    : '  Account   admin; its first password is in the file admin-password of the data folder, or was set in BERTH_ADMIN_PASSWORD';
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
${account}

  A first launch to copy:

  TOKEN=$(curl -s ${apiUrl}/api/user/login -H 'content-type: application/json' \\
    -d '{"username":"admin","password":"${password}"}' | sed 's/.*"accessToken":"\\([^"]*\\)".*/\\1/')
  curl -s ${apiUrl}/api/instance/create -H "Authorization: Bearer $TOKEN" -H 'content-type: application/json' \\
    -d '${launch}'
  curl -s ${apiUrl}/api/instance/list -H "Authorization: Bearer $TOKEN" -H 'content-type: application/json' \\
    -d '{"pager":{"currentPage":1,"pageSize":10}}'

`;
}
