import { X509Certificate } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { layoutOf } from '../../kubernetes/cluster/addresses.ts';
import { ensurePki } from '../../kubernetes/cluster/pki.ts';

test('a kept folder keeps certificates and tokens, for the number of its cluster alone', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'berth-pki-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const pki = await ensurePki(folder, layoutOf(3));
  const node = new X509Certificate(await readFile(path.join(folder, 'node.crt')));
  expect(node.checkIP('10.99.3.2')).toBe('10.99.3.2');
  expect(node.verify(new X509Certificate(pki.ca).publicKey)).toBe(true);
  expect(await ensurePki(folder, layoutOf(3))).toEqual(pki);
  await expect(ensurePki(folder, layoutOf(4))).rejects.toThrow('belongs to berth-kube-3, not to berth-kube-4');
});
