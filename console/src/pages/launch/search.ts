/** Choices of a launch in the address; what is not understood is left out. */
import { chargeModes } from '../../../../src/contract/statuses.ts';
import { oneOf, textOf } from '../../parts/address.ts';
import type { Choices, Mount } from './draft.ts';

export interface LaunchSearch extends Choices {
  /** Instance whose launch is repeated. */
  like?: string;
  template?: string | undefined;
}

const isMount = (value: unknown): value is Mount =>
  typeof value === 'object' &&
  value !== null &&
  'id' in value &&
  typeof value.id === 'string' &&
  'path' in value &&
  typeof value.path === 'string';
const flagOf = (value: unknown): boolean | undefined => (typeof value === 'boolean' ? value : undefined);
const countOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : undefined;

export function readLaunchSearch(raw: Record<string, unknown>): LaunchSearch {
  const read = {
    like: textOf(raw['like']),
    template: textOf(raw['template']),
    // An emptied field stays empty: a name left out is the default.
    name: raw['name'] === '' ? '' : textOf(raw['name']),
    offer: textOf(raw['offer']),
    imageId: textOf(raw['imageId']),
    mode: oneOf(raw['mode'], chargeModes),
    duration: countOf(raw['duration']),
    autoRenew: flagOf(raw['autoRenew']),
    resume: flagOf(raw['resume']),
    mounts: Array.isArray(raw['mounts']) ? raw['mounts'].filter(isMount) : undefined,
    ports: Array.isArray(raw['ports']) ? raw['ports'].filter((port) => countOf(port) !== undefined) : undefined,
    docker: flagOf(raw['docker']),
    imageCommand: flagOf(raw['imageCommand']),
    commonData: flagOf(raw['commonData']),
    dataDiskGB: countOf(raw['dataDiskGB']),
  };
  return Object.fromEntries(Object.entries(read).filter(([, value]) => value !== undefined));
}
