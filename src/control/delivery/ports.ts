export type { AccountVersions } from './account-versions.ts';
export type { DeliveryParts } from './wire.ts';
