/**
 * Settings of a region's engine as text: what a new region begins with, and what is read back.
 * Pure.
 */
import type { InputOf } from '../../../../../src/contract/routes.ts';

export type Settings = InputOf<'createRegion'>['settings'];

export const engineKinds = ['docker', 'kubernetes', 'simulated'] as const;
export type EngineKind = (typeof engineKinds)[number];

const shared = { pools: [{ name: 'default', sizeGB: 1_000 }], nodePorts: { first: 31_000, last: 31_999 } } as const;

const firstSettings: Readonly<Record<EngineKind, object>> = {
  docker: {
    docker: { endpoint: 'tcp://gpu1.example.org:2376', ca: '', helperImage: 'busybox:1.37' },
    ...shared,
  },
  kubernetes: {
    kubernetes: {
      login: 'token',
      apiUrl: 'https://cluster.example.org:6443',
      namespace: 'berth',
      networkPolicies: true,
      reach: 'portForward',
    },
    pools: [
      {
        name: 'default',
        sizeGB: 1_000,
        claims: { storageClass: 'standard', sizeLimit: 'hard', filesImage: 'busybox:1.37' },
      },
    ],
    nodePorts: shared.nodePorts,
  },
  simulated: { simulated: { cpuCores: 64, memoryGB: 256, gpus: 4 }, ...shared },
};

export const firstSettingsOf = (kind: EngineKind): string => JSON.stringify(firstSettings[kind], null, 2);

export const textOfSettings = (settings: unknown): string => JSON.stringify(settings, null, 2);

/** Null: the text is no JSON object. The API checks the members, and names what is wrong. */
export function settingsOf(text: string): Settings | null {
  try {
    const parsed: Settings = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed) ? parsed : null;
  } catch {
    return null;
  }
}
