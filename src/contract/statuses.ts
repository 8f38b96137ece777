/** Closed lists of the interface, for clients that name each member. */
export { chargeModes, type ChargeMode } from '../domain/catalog.ts';
export { instanceStatuses, type InstanceStatus } from '../domain/instance-states.ts';
