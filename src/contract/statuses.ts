/** Closed lists of the interface, for clients that name each member. */
export { chargeModes, type ChargeMode } from '../domain/regions/catalog.ts';
export { ruleNames, type RuleName } from '../domain/compute/idle.ts';
export { instanceStatuses, type InstanceStatus } from '../domain/compute/instance-states.ts';
export { accountStates, type AccountState } from '../domain/access/account-state.ts';
export { egressModes } from '../domain/regions/egress.ts';
export { meters } from '../domain/money/meter.ts';
export { moneySteps, type MoneyStep } from '../domain/money/money-ladder.ts';
export { roles } from '../domain/access/roles.ts';
export { weekdays } from '../domain/regions/off-peak.ts';
export { volumeTypes } from '../domain/storage/disk.ts';
export { scopes, type Scope } from '../domain/access/scopes.ts';
export { instanceSorts } from '../domain/kernel/list-sorts.ts';
