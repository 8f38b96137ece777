/** Requests of administrators to a region: drains, retirements, offered types, and its engine. */
import type { Control } from '../../src/control/index.ts';
import type { Request } from './client.ts';
import type { SimulatedRegion } from './simulated-region.ts';
import { administrator, settings, typesOf } from './template.ts';
import type { World } from './world.ts';

const request = (text: string, send: (control: Control) => Promise<unknown>): Request => ({
  text,
  caller: administrator,
  key: null,
  send,
  sent: () => {},
  answered: () => {},
  refused: () => {},
});

const versionOf = ({ checker }: World, table: 'region' | 'instanceType', id: string): number =>
  checker.rows<{ version: number }>(`select version from ${table} where id = ?`, id)[0]?.version ?? 1;

function drain({ region: { id, name } }: SimulatedRegion, isOn: boolean, stopRunningAfterMs?: number): Request {
  const input = { regionId: id, drain: isOn, reason: 'simulated', ...(isOn ? { stopRunningAfterMs } : {}) };
  return request(`${isOn ? 'drain' : 'end the drain of'} ${name}`, (control) =>
    control.operator.drain(administrator, input, null),
  );
}

const retire = (world: World, { region: { id, name } }: SimulatedRegion, retired: boolean): Request =>
  request(`${retired ? 'retire' : 'offer'} ${name}`, (control) => {
    const change = { regionId: id, version: versionOf(world, 'region', id), dryRun: false, retired };
    return control.regionAdministration.retire(administrator, change, null);
  });

const retireType = (world: World, id: string, retired: boolean): Request =>
  request(`${retired ? 'retire' : 'offer'} type ${id}`, (control) => {
    const change = { instanceTypeId: id, version: versionOf(world, 'instanceType', id), dryRun: false, retired };
    return control.offeredTypes.retire(administrator, change, null);
  });

/** Replaces the drivers; a region of the settings of the server refuses. */
const changeEngine = (world: World, { region: { id, name } }: SimulatedRegion): Request =>
  request(`change the engine of ${name}`, (control) => {
    const change = { regionId: id, version: versionOf(world, 'region', id), dryRun: false, settings };
    return control.regionAdministration.update(administrator, change, null);
  });

const allTypes = ({ region }: SimulatedRegion) => [...typesOf(region), ...typesOf(region, true)];

export function drawRegionRequest(world: World): Request {
  const { schedule } = world;
  const region = world.anyRegion();
  const isOn = schedule.chance(0.5);
  switch (schedule.between(0, 3)) {
    case 0:
      return drain(region, isOn, schedule.chance(0.3) ? schedule.spread(1_000, 60_000) : undefined);
    case 1:
      return retire(world, region, isOn);
    case 2:
      return retireType(world, schedule.oneOf(allTypes(region)).id, isOn);
    default:
      return changeEngine(world, region);
  }
}

/** Ends drains and retirements. */
export const offerAll = (world: World): Request[] =>
  world.regions
    .flatMap((region) => [
      drain(region, false),
      retire(world, region, false),
      ...allTypes(region).map(({ id }) => retireType(world, id, false)),
    ])
    .map((one) => ({ ...one, mustSucceed: true }));
