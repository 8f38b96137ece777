import { expect, test } from 'vitest';
import { parseAnswers } from '../../../src/storage/claims/claim-usage.ts';

const head = 'Filesystem           1024-blocks    Used Available Capacity Mounted on\n';

test('reads an answer of df for each path, whatever the device is called', () => {
  const output = [
    `${head}/dev/loop3              1038336   39560    998776   4% /root/dataDisk\n.\n`,
    '.\n',
    `Dateisystem     1024-Blöcke Benutzt Verfügbar Kapazität Eingehängt auf\n//server/a share 2000 500 -3 25% /mnt/my 5% disk\n.\n`,
  ].join('');
  expect([...parseAnswers(['data', 'gone', 'share', 'missing'], output)]).toEqual([
    ['data', { totalBytes: 1038336 * 1024, usedBytes: 39560 * 1024 }],
    ['share', { totalBytes: 2000 * 1024, usedBytes: 500 * 1024 }],
  ]);
});

test('reads nothing of other output', () => {
  expect(parseAnswers(['data'], 'sh: df: not found').size).toBe(0);
  expect(parseAnswers(['data'], `${head}overlay - - - - /\n.\n`).size).toBe(0);
});
