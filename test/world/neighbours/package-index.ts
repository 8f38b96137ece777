/** What instances need to reach the package index of this machine, as settings of the server. */
import { env } from 'node:process';

export function packageIndexSettings(): Record<string, string> {
  const settings = {
    BERTH_INSTANCE_CA: env['SSL_CERT_FILE'],
    BERTH_INSTANCE_PIP_INDEX: env['PIP_INDEX_URL'],
    BERTH_INSTANCE_PROXY: env['https_proxy'],
    BERTH_INSTANCE_NO_PROXY: env['https_proxy'] === undefined ? undefined : env['no_proxy'],
  };
  return Object.fromEntries(
    Object.entries(settings).filter((setting): setting is [string, string] => setting[1] !== undefined),
  );
}
