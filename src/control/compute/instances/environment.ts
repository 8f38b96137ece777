/**
 * The environment of an instance's programs: Berth's own variables, then those of the installation,
 * the account and the instance, sealed in their rows.
 */
import {
  hideSecrets,
  mergeEnvironment,
  refusalOfLayer,
  type Environment,
  type VariableSource,
} from '../../../domain/compute/environment.ts';
import type { Instance } from '../../../domain/compute/instance.ts';
import { ANY_PORT, ownVariables, type PortAddresses } from '../../../domain/compute/own-variables.ts';
import { instanceNotFound, Refusal } from '../../../domain/kernel/refusal.ts';
import { encodeFlag } from '../../../store/db/columns.ts';
import type { Db } from '../../../store/store.ts';
import { lockInstance, markFilesStale } from '../../../store/tables/instances.ts';
import { deleteVariables, saveVariables, variablesOf, type VariableRow } from '../../../store/tables/variables.ts';
import { requireOwned } from '../inside/require-instance.ts';
import { lockOwnAccount } from '../../access/ports.ts';
import {
  type Caller,
  type Idempotency,
  type UseCaseDeps,
  type Regions,
  idempotentWrite,
  type Seal,
} from '../../kernel/ports.ts';

export type GivenVariables = Readonly<Record<string, string>>;

export interface VariableChange {
  environment: GivenVariables;
  secrets: GivenVariables;
  names: readonly string[];
}

/** Null for a secret, and for a value whose key is lost. */
export interface ListedVariable {
  name: string;
  value: string | null;
  isSecret: boolean;
  isLost: boolean;
  from: VariableSource;
  /** 0 for Berth's own. */
  updatedAtUnixMs: number;
}

/** Holder of variables. Administrators alone change those of the installation. */
export type VariableHolder = 'installation' | 'account' | { instanceId: string };

export interface Environments {
  /** Own variables of installation or account; of an instance all it gets, by name. */
  list(caller: Caller, holder: VariableHolder): Promise<ListedVariable[]>;
  /** Returns the number of instances that run or start, whose new sessions get the change. */
  change(
    caller: Caller,
    holder: VariableHolder,
    change: { [Member in keyof VariableChange]?: VariableChange[Member] | undefined },
    idempotency: Idempotency | null,
  ): Promise<{ runningInstances: number }>;
}

const INSTALLATION = 'installation';

type WithVariables = Pick<Instance, 'id' | 'ownerId' | 'spec'>;

export interface Variables {
  /** Written to `/etc/berth/env`, and added to each command by API. Lost values are left out. */
  environmentOf(db: Db, instance: WithVariables): Promise<Environment>;
  ownOf(instance: WithVariables): Environment;
  /** Hides values of the instance's secrets in a text. */
  redact(db: Db, instance: { id: string; ownerId: string }, text: string): Promise<string>;
  /** Throws `field_value` for a layer over its limits. */
  write(tx: Db, holderId: string, change: VariableChange, nowMs: number): Promise<void>;
  listed(db: Db, holderIds: readonly string[], source: (holderId: string) => VariableSource): Promise<ListedVariable[]>;
}

export interface VariablesDeps {
  seal: Seal;
  regions: Regions;
  portUrls: (at: { instanceId: string; port: string }) => PortAddresses;
}

export function makeVariables({ seal, regions, portUrls }: VariablesDeps): Variables {
  const ownOf = (instance: WithVariables): Environment =>
    ownVariables(
      instance,
      portUrls({ instanceId: instance.id, port: ANY_PORT }),
      regions.of(instance.spec.regionId).instanceNetwork,
    );
  const purpose = (holderId: string, name: string): string => `variable ${holderId} ${name}`;
  const open = ({ holderId, name, sealed }: VariableRow): string | null => seal.open(sealed, purpose(holderId, name));
  const layerOf = (rows: readonly VariableRow[], holderId: string): Environment =>
    new Map(
      rows.flatMap((row): [string, string][] => {
        const value = row.holderId === holderId ? open(row) : null;
        return value === null ? [] : [[row.name, value]];
      }),
    );

  return {
    ownOf,

    async environmentOf(db, instance) {
      const holders = [INSTALLATION, instance.ownerId, instance.id];
      const rows = await variablesOf(db, holders);
      return mergeEnvironment(ownOf(instance), ...holders.map((holderId) => layerOf(rows, holderId)));
    },

    async redact(db, { id, ownerId }, text) {
      const rows = (await variablesOf(db, [INSTALLATION, ownerId, id])).filter(({ isSecret }) => isSecret === 1);
      return [INSTALLATION, ownerId, id].reduce((shown, holderId) => hideSecrets(shown, layerOf(rows, holderId)), text);
    },

    async write(tx, holderId, { environment, secrets, names }, nowMs) {
      if ([names, Object.keys(environment), Object.keys(secrets)].every(({ length }) => length === 0)) return;
      const twice = Object.keys(environment).find((name) => Object.hasOwn(secrets, name));
      if (twice !== undefined)
        throw new Refusal('field_value', `${twice} is both in "environment" and in "secrets"; send it in one`);
      await deleteVariables(tx, holderId, names);
      const layer = layerOf(await variablesOf(tx, [holderId]), holderId);
      const given = (variables: GivenVariables, isSecret: boolean) =>
        Object.entries(variables).map(([name, value]) => ({ name, value, isSecret }));
      const all = [...given(environment, false), ...given(secrets, true)];
      const why = refusalOfLayer(new Map([...layer, ...all.map(({ name, value }): [string, string] => [name, value])]));
      if (why !== null) throw new Refusal('field_value', why);
      const rows = all.map(({ name, value, isSecret }) => ({
        holderId,
        name,
        isSecret: encodeFlag(isSecret),
        sealed: seal.seal(value, purpose(holderId, name)),
        updatedAtMs: nowMs,
      }));
      await saveVariables(tx, rows);
    },

    async listed(db, holderIds, source) {
      const rows = await variablesOf(db, holderIds);
      return rows.map((row) => {
        const value = open(row);
        const { name, isSecret, updatedAtMs, holderId } = row;
        return {
          name,
          value: isSecret === 1 ? null : value,
          isSecret: isSecret === 1,
          isLost: value === null,
          from: source(holderId),
          updatedAtUnixMs: updatedAtMs,
        };
      });
    },
  };
}

export interface EnvironmentDeps extends Pick<UseCaseDeps, 'store' | 'time' | 'idempotent' | 'changes'> {
  variables: Variables;
}

export function makeEnvironments(deps: EnvironmentDeps): Environments {
  const { store, changes, variables } = deps;

  async function listOfInstance(caller: Caller, instanceId: string): Promise<ListedVariable[]> {
    const instance = await requireOwned(store, caller, instanceId);
    const { id, ownerId } = instance;
    const sources: Readonly<Record<string, VariableSource>> = { [INSTALLATION]: 'installation', [ownerId]: 'account' };
    const listed = await variables.listed(
      store.read,
      [INSTALLATION, ownerId, id],
      (holderId) => sources[holderId] ?? 'instance',
    );
    const own = [...variables.ownOf(instance)].map(([name, value]): ListedVariable => ({
      name,
      value,
      isSecret: false,
      isLost: false,
      from: 'berth',
      updatedAtUnixMs: 0,
    }));
    const order: readonly VariableSource[] = ['installation', 'account', 'instance'];
    const strongest = new Map(own.map((variable) => [variable.name, variable]));
    for (const variable of listed.toSorted((a, b) => order.indexOf(a.from) - order.indexOf(b.from)))
      strongest.set(variable.name, variable);
    return [...strongest.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Locks the holder, marks the files of its running instances, and returns their number. */
  async function lockHolder(tx: Db, { accountId }: Caller, holder: VariableHolder, nowMs: number): Promise<number> {
    if (typeof holder === 'object') {
      if (!(await lockInstance(tx, accountId, holder.instanceId))) throw instanceNotFound();
      return markFilesStale(tx, { id: holder.instanceId }, nowMs);
    }
    // Instances before the account, as everywhere.
    const running = await markFilesStale(tx, holder === 'account' ? { ownerId: accountId } : {}, nowMs);
    await lockOwnAccount(tx, accountId);
    return running;
  }

  const idOf = ({ accountId }: Caller, holder: VariableHolder): string =>
    typeof holder === 'object' ? holder.instanceId : holder === 'account' ? accountId : INSTALLATION;

  return {
    list: (caller, holder) =>
      typeof holder === 'object'
        ? listOfInstance(caller, holder.instanceId)
        : variables.listed(store.read, [idOf(caller, holder)], () => holder),

    async change(caller, holder, { environment = {}, secrets = {}, names = [] }, idempotency) {
      const answer = await idempotentWrite(deps, caller.accountId, idempotency, async (tx, nowMs) => {
        const runningInstances = await lockHolder(tx, caller, holder, nowMs);
        await variables.write(tx, idOf(caller, holder), { environment, secrets, names }, nowMs);
        return { runningInstances };
      });
      changes.publish({ subject: 'instance', isDue: true });
      return answer;
    },
  };
}
