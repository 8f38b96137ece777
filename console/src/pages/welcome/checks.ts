/** What the API and this page tell about the addresses of the installation. Pure. */

const LOOPBACK = /^(?:localhost|.*\.localhost|127(?:\.\d{1,3}){3}|::1|\[::1\])$/;

export const isLoopback = (host: string): boolean => LOOPBACK.test(host);

/** `gpu.example.org:8443` and `[::1]:8081` without the port. */
export const hostOf = (domain: string): string => domain.replace(/:\d+$/, '');

export type Verdict =
  'loopback' | 'plain' | 'tls' | 'gatewayLoopback' | 'gatewayOk' | 'sshOk' | 'sshLoopback' | 'engineOk' | 'engineBad';

export const isGood = (verdict: Verdict): boolean =>
  verdict === 'tls' || verdict === 'gatewayOk' || verdict === 'sshOk' || verdict === 'engineOk';
export const isBad = (verdict: Verdict): boolean => verdict === 'gatewayLoopback' || verdict === 'engineBad';

export function verdictOfPage({ protocol, hostname }: { protocol: string; hostname: string }): Verdict {
  if (isLoopback(hostname)) return 'loopback';
  return protocol === 'https:' ? 'tls' : 'plain';
}

/** A gateway on loopback is wrong only where the page is not. */
export function verdictOfGateway(domain: string, pageHost: string): Verdict {
  if (!isLoopback(hostOf(domain))) return 'gatewayOk';
  return isLoopback(pageHost) ? 'loopback' : 'gatewayLoopback';
}

export const verdictOfSsh = (address: string): Verdict => (isLoopback(address) ? 'sshLoopback' : 'sshOk');

export const ways = ['plain', 'files', 'proxy'] as const;
export type Way = (typeof ways)[number];

/** Settings of docs/reference/settings.md, a line each. */
export function settingsFor(way: Way, address: string): string {
  const listen = ['BERTH_LISTEN=0.0.0.0:8080', 'BERTH_GATEWAY_LISTEN=0.0.0.0:8081'];
  switch (way) {
    case 'plain':
      return [...listen, `BERTH_PUBLIC_ADDRESS=${address}`].join('\n');
    case 'files':
      return [
        'BERTH_LISTEN=0.0.0.0:443',
        'BERTH_GATEWAY_LISTEN=0.0.0.0:8443',
        `BERTH_PUBLIC_ADDRESS=${address}`,
        'BERTH_API_TLS_CERT=/etc/berth/cert.pem',
        'BERTH_API_TLS_KEY=/etc/berth/key.pem',
        'BERTH_GATEWAY_TLS_CERT=/etc/berth/cert.pem',
        'BERTH_GATEWAY_TLS_KEY=/etc/berth/key.pem',
        `BERTH_API_URL=https://${address}`,
        `BERTH_GATEWAY_URL=https://${address}:8443`,
      ].join('\n');
    case 'proxy':
      return [
        'BERTH_LISTEN=127.0.0.1:8080',
        'BERTH_GATEWAY_LISTEN=127.0.0.1:8081',
        `BERTH_API_URL=https://${address}`,
        `BERTH_GATEWAY_URL=https://${address}:8443`,
        'BERTH_TRUSTED_PROXIES=127.0.0.1',
      ].join('\n');
  }
}
