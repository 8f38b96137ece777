import { expect, test } from 'vitest';
import { shareFiles } from '../../../src/main/open-files.ts';

test.each([
  [256, 18, 54, 48],
  [1_024, 72, 216, 192],
  [4_096, 288, 864, 768],
  [20_000, 1_779, 5_337, 4_744],
  [1_048_576, 20_000, 499_680, 8_192],
  [Infinity, 20_000, Infinity, 8_192],
  [10, 1, 1, 1],
])('divides %i open files: %i API connections, %i of the gateway, %i files for ssh', (files, api, gateway, ssh) => {
  expect(shareFiles(files, 'all')).toEqual({ apiConnections: api, gatewayConnections: gateway, sshFiles: ssh });
});

test('a process of one role has the share of the other role, too', () => {
  expect(shareFiles(1_024, 'api')).toMatchObject({ apiConnections: 384, sshFiles: 0 });
  expect(shareFiles(1_024, 'gateway')).toMatchObject({ gatewayConnections: 288, sshFiles: 192 });
});

test('leaves a quarter of the files to store and engine, with two files for each connection', () => {
  for (const role of ['all', 'api', 'gateway'] as const) {
    for (let files = 256; files < 100_000; files += 97) {
      const { apiConnections, gatewayConnections, sshFiles } = shareFiles(files, role);
      const used = 2 * ((role === 'gateway' ? 0 : apiConnections) + (role === 'api' ? 0 : gatewayConnections));
      expect(files - used - sshFiles, `${role}, ${files}`).toBeGreaterThanOrEqual(
        Math.min(Math.floor(files / 4), 1_024),
      );
    }
  }
});
