import type { Region } from '../../../domain/regions/catalog.ts';
import type { Instance } from '../../../domain/compute/instance.ts';
import {
  effectiveAccess,
  defaultAccess,
  changeAccess,
  type AccessByPort,
  NOTEBOOK_PORT,
  SSH_PORT,
} from '../../../domain/access/port-access.ts';
import { publicInstance } from '../../../domain/compute/public-instance.ts';
import { instanceNotFound, Refusal } from '../../../domain/kernel/refusal.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import { lockInstance, instanceFromRow, ownedInstanceRow, type InstanceRow } from '../../../store/tables/instances.ts';
import { portAccessOf, writePortAccess, sharesOf } from '../../../store/tables/ports.ts';
import { knownImages } from '../../../store/tables/image-facts.ts';
import type { Db } from '../../../store/store.ts';
import type { PortInfo, Ports } from './gateway-types.ts';
import type { UseCaseDeps } from '../../kernel/ports.ts';

const MAX_SETTINGS = 64;

export interface PortDeps extends Pick<UseCaseDeps, 'store' | 'readCatalog' | 'time' | 'changes'> {
  /** `host`: null where ports have no host name. */
  portUrls: (at: { instanceId: string; port: number }) => { path: string; host: string | null };
}

export function makePorts(deps: PortDeps): Pick<Ports, 'setAccess' | 'list'> {
  const { store, readCatalog, time, changes, portUrls } = deps;

  const regionOf = async ({ regionId }: InstanceRow): Promise<Region> => {
    const region = (await readCatalog()).regions.get(regionId)?.region;
    if (!region) throw new Refusal('unavailable', `region ${regionId} is not configured on this server`);
    return region;
  };

  const listed = (instance: Instance, region: Region, settings: AccessByPort, port: number): PortInfo => {
    const asked = requestedPorts(instance);
    const access = effectiveAccess(asked, settings).get(port) ?? 'owner';
    const { path, host } = portUrls({ instanceId: instance.id, port });
    const published = publicInstance(instance, region).instanceSpecInfo.nodePorts.find((one) => one.port === port);
    return {
      port,
      access,
      isDefault: access === defaultAccess(port, asked),
      pathUrl: path,
      hostUrl: host,
      nodePort: published && published.nodePort > 0 ? { address: published.address, port: published.nodePort } : null,
      note: noteOf({ port, asked, access, host }),
    };
  };

  return {
    async setAccess({ accountId }, { instanceId, port, access }) {
      const answer = await store.write(async (tx) => {
        const row = await lockInstance(tx, accountId, instanceId);
        if (!row) throw instanceNotFound();
        const instance = instanceFromRow(row);
        const before = portAccessOf(row);
        const settings = changeAccess(before, { port, access }, requestedPorts(instance));
        if (settings.size > MAX_SETTINGS)
          throw new Refusal(
            'over_quota',
            `the instance has settings for ${before.size} ports, and the limit is ${MAX_SETTINGS}; set one of them to "default" first`,
          );
        const change = { instance, settings, row };
        if (settings.get(port) === before.get(port)) return change;
        await writePortAccess(tx, instanceId, settings);
        const data = { port, access };
        const atMs = time.now();
        await appendEvent(tx, { accountId, atMs, kind: 'instance.portAccessSet', subjectId: instanceId, data });
        return change;
      });
      changes.publish({ subject: 'instance', id: instanceId });
      return listed(answer.instance, await regionOf(answer.row), answer.settings, port);
    },

    async list({ accountId }, instanceId) {
      const row = await ownedInstanceRow(store.read, accountId, instanceId);
      if (!row) throw instanceNotFound();
      const region = await regionOf(row);
      const instance = instanceFromRow(row);
      const settings = portAccessOf(row);
      const shared = (await sharesOf(store.read, instanceId, time.now())).map(({ port }) => port);
      const declared = await declaredPorts(store.read, instance);
      const ports = new Set([...requestedPorts(instance), ...settings.keys(), ...shared, ...declared]);
      return [...ports].toSorted((a, b) => a - b).map((port) => listed(instance, region, settings, port));
    },
  };
}

async function declaredPorts(db: Db, { spec: { image, regionId, runImageCommand } }: Instance): Promise<number[]> {
  if (!runImageCommand) return [];
  const facts = (await knownImages(db, [image.id])).get(image.id)?.regions[regionId];
  return (facts?.declares.ports ?? []).filter((port) => port !== SSH_PORT);
}

const requestedPorts = ({ nodePorts }: Instance): number[] =>
  nodePorts.map(({ port }) => port).filter((port) => port !== SSH_PORT);

interface Noted extends Pick<PortInfo, 'port' | 'access'> {
  asked: readonly number[];
  host: string | null;
}

function noteOf({ port, asked, access, host }: Noted): string {
  const notes: string[] = [];
  if (asked.includes(port))
    notes.push(
      'this setting affects only the gateway: the port is also in nodePorts, and its node port is open to everyone who reaches the host',
    );
  if (port === NOTEBOOK_PORT) notes.push('/notebook is always the owner’s, whatever the setting');
  if (host === null && (access === 'signedIn' || access === 'public'))
    notes.push(
      `at pathUrl, all but the owner see pages in a sandbox, where apps of several files do not work: ${asked.includes(port) ? 'pass on the node port' : 'add the port to nodePorts and pass on its node port'}, or let the operator set BERTH_DOMAIN`,
    );
  return notes.join('; ');
}
