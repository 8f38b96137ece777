/** Engines of regions that administrators add: opened, tried, and served at once. */
import type { RegionId } from '../../domain/kernel/ids.ts';
import { engineKindOf, faultOfRegionSettings, type RegionSettings } from '../../domain/regions/region-settings.ts';
import { Refusal, regionNotFound } from '../../domain/kernel/refusal.ts';
import { errorText } from '../../domain/kernel/unknown-error.ts';
import type { Store } from '../../store/store.ts';
import { managedRegionById, type ManagedRegion } from '../../store/tables/catalog-rows.ts';
import type { RegionCapacity } from '../../store/tables/catalog.ts';
import { totalOf } from './capacity/probe.ts';
import type { Probe } from '../../engines/contract.ts';
import type { RegionDrivers, Regions, Seal, Time } from '../kernel/ports.ts';

export interface EngineFields {
  sshAddress: string;
  settings: RegionSettings;
  credentials?: string | null | undefined;
}

export type Optional<Members> = { [Name in keyof Members]?: Members[Name] | undefined };

export interface RegionToOpen {
  id: RegionId;
  /** Address of node ports. */
  address: string;
  settings: RegionSettings;
  /** Secret for the engine's API; null without one. */
  secret: string | null;
}

/** Makes drivers without a call to the engine. Throws an Error that says what is wrong. */
export type OpenRegion = (region: RegionToOpen) => Promise<RegionDrivers>;

export interface RegionEngineDeps {
  openRegion: OpenRegion;
  regions: Pick<Regions, 'put'>;
  time: Pick<Time, 'deadline'>;
  seal: Seal;
  /** Reads what the engine and its pools have. */
  onServed: () => Promise<void>;
}

const TRY_MS = 10_000;
/** Pods of a cluster start meanwhile. */
const CHECK_MS = 40_000;

const sealContext = (id: string): string => `region ${id}`;

export const sealCredentials = ({ seal }: Pick<RegionEngineDeps, 'seal'>, id: string, secret: string): string =>
  seal.seal(secret, sealContext(id));

/** Throws without the key that sealed the credentials. */
export function openCredentials({ seal }: Pick<RegionEngineDeps, 'seal'>, id: string, sealed: string): string {
  const secret = seal.open(sealed, sealContext(id));
  if (secret === null)
    throw new Error(
      'the credentials of the region were sealed with another secrets key: send "credentials" to POST /api/admin/region/update',
    );
  return secret;
}

export interface TriedRegion {
  probe: Probe;
  total: RegionCapacity;
  warnings: string[];
  /** Ends the drivers before. */
  serve(): Promise<void>;
  /** Ends these drivers. */
  drop(): Promise<void>;
}

/** Refuses an engine that does not answer, or lacks what it needs, and pools that are not there. */
export async function tryRegion(
  { openRegion, regions, time, onServed }: RegionEngineDeps,
  region: RegionToOpen,
): Promise<TriedRegion> {
  const drivers = await openRegion(region).catch((error: unknown) => {
    throw new Refusal('field_value', `field "settings" cannot be used: ${errorText(error)}`);
  });
  try {
    const probe = await probeOf(drivers, time.deadline(TRY_MS));
    const warnings = await tryEngine(drivers, time.deadline(CHECK_MS));
    await tryPools(drivers);
    return {
      probe,
      total: totalOf(drivers, probe),
      warnings,
      async serve() {
        await regions.put(drivers)?.engine.stop();
        await onServed();
      },
      drop: () => drivers.engine.stop(),
    };
  } catch (error) {
    await drivers.engine.stop();
    throw error;
  }
}

async function probeOf({ engine }: RegionDrivers, signal: AbortSignal): Promise<Probe> {
  try {
    return await engine.probe(signal);
  } catch (error) {
    const advice = 'check "settings" and "credentials", then send the request again';
    throw new Refusal('unavailable', `the engine of the region does not answer: ${errorText(error)}; ${advice}`);
  }
}

async function tryEngine({ engine }: RegionDrivers, signal: AbortSignal): Promise<string[]> {
  try {
    return (await engine.check?.(signal)) ?? [];
  } catch (error) {
    throw new Refusal('field_value', `field "settings" cannot be used: ${errorText(error)}`);
  }
}

async function tryPools({ pools }: RegionDrivers): Promise<void> {
  for (const { name, storage } of pools) {
    await storage.space().catch((error: unknown) => {
      throw new Refusal(
        'field_value',
        `the pool ${name} of field "settings.pools" cannot be used: ${errorText(error)}`,
      );
    });
  }
}

/** Null when the change concerns no engine. */
export async function tryChangedEngine(
  deps: RegionEngineDeps & { store: Pick<Store, 'read'> },
  id: string,
  version: number,
  fields: Optional<EngineFields>,
): Promise<TriedRegion | null> {
  const { settings, credentials, sshAddress } = fields;
  if (settings === undefined && credentials === undefined && sshAddress === undefined) return null;
  const before = await managedRegionById(deps.store.read, id);
  if (!before) throw regionNotFound(id);
  if (before.settings === null)
    throw new Refusal(
      'field_value',
      `region ${before.facts.name} is this machine's: its engine, pools and addresses are settings of the server (docs/reference/settings.md); leave out "settings", "credentials" and "sshAddress"`,
    );
  // The transaction refuses the stale version.
  if (before.version !== version) return null;
  refuseFault(settings && faultOfRegionSettings(settings));
  refuseFault(settings && faultOfChange(before.settings, settings));
  const sealed = before.credentials;
  const secret = credentials === undefined ? sealed && openCredentials(deps, id, sealed) : credentials;
  const address = sshAddress ?? before.facts.sshAddress;
  return tryRegion(deps, { id: before.facts.id, address, settings: settings ?? before.settings, secret });
}

/** Keeps what disks and instances of the region depend on. */
function faultOfChange(before: RegionSettings, after: RegionSettings): string | null {
  const [was, is] = [engineKindOf(before), engineKindOf(after)];
  if (was !== is)
    return `field "settings" has the engine ${is}, but the region has instances on ${was}; create another region`;
  const [namespace, other] = [before.kubernetes?.namespace, after.kubernetes?.namespace];
  if (namespace !== other)
    return `field "settings.kubernetes.namespace" is ${other}, but instances and disks of the region are in ${namespace}; create another region`;
  if (before.sharedFolder === false && after.sharedFolder !== false)
    return 'field "settings.sharedFolder" stays false, since instances of the region have no shared folder; create another region';
  const gone = before.pools.find(({ name }) => !after.pools.some((pool) => pool.name === name));
  return gone ? `field "settings.pools" lacks the pool ${gone.name}, which may hold disks; keep it` : null;
}

/** Regions of one namespace would change each other's network rules and list each other's disks. */
export function refuseSharedNamespace(regions: readonly ManagedRegion[], { facts, settings }: ManagedRegion): void {
  const placeOf = ({ kubernetes }: RegionSettings): string | null =>
    kubernetes?.apiUrl === undefined ? null : `${new URL(kubernetes.apiUrl).host} ${kubernetes.namespace}`;
  const place = settings && placeOf(settings);
  const other = regions.find((one) => one.facts.id !== facts.id && one.settings && placeOf(one.settings) === place);
  if (place !== null && other)
    throw new Refusal(
      'name_taken',
      `field "settings.kubernetes.namespace" is that of region ${other.facts.name} (${other.facts.id}) in the same cluster; make a namespace for each region`,
    );
}

export function refuseFault(fault: string | null | undefined): void {
  if (fault !== null && fault !== undefined) throw new Refusal('field_value', fault);
}
