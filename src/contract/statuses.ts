/** Closed lists of the interface, for clients that name each member. */
export { chargeModes, type ChargeMode } from '../domain/catalog.ts';
export { ruleNames, type RuleName } from '../domain/idle.ts';
export { instanceStatuses, type InstanceStatus } from '../domain/instance-states.ts';
export { accountStates, type AccountState } from '../domain/account-state.ts';
export { egressModes } from '../domain/egress.ts';
export { meters } from '../domain/meter.ts';
export { moneySteps, type MoneyStep } from '../domain/money-ladder.ts';
export { roles } from '../domain/roles.ts';
export { weekdays } from '../domain/off-peak.ts';
export { volumeTypes } from '../domain/disk.ts';
export { scopes, type Scope } from '../domain/scopes.ts';
export { instanceSorts } from '../domain/list-sorts.ts';
