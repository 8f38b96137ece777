/** Allots node ports of the region's range at random; the primary key prevents duplicates. */
import type { Instance, NodePort } from '../../../domain/compute/instance.ts';
import { allotNodePort, allottedNodePorts } from '../../../store/tables/ports.ts';
import type { Db } from '../../../store/store.ts';
import type { RegionDrivers } from '../../kernel/ports.ts';

const BLIND_TRIES = 8;

/** Too few ports left. Throw it out of the transaction, which rolls back the others. */
export class PortsUsedUp extends Error {}

/** Gives each port a node port other than `avoided`. Throws `PortsUsedUp`. */
export async function allotNodePorts(
  tx: Db,
  { nodePortRange: { first, last } }: Pick<RegionDrivers, 'nodePortRange'>,
  instance: Pick<Instance, 'id' | 'spec' | 'nodePorts'>,
  random: () => number,
  avoided = 0,
): Promise<NodePort[]> {
  const region = instance.spec.regionId;
  const size = last - first + 1;
  const draw = async (port: number): Promise<number | null> => {
    for (let tries = 0; tries < BLIND_TRIES; tries++) {
      const nodePort = first + Math.floor(random() * size);
      if (nodePort !== avoided && (await allotNodePort(tx, region, nodePort, instance.id, port))) return nodePort;
    }
    const taken = (await allottedNodePorts(tx, region)).add(avoided);
    const free = Array.from({ length: size }, (_, index) => first + index).filter((nodePort) => !taken.has(nodePort));
    for (const nodePort of free) if (await allotNodePort(tx, region, nodePort, instance.id, port)) return nodePort;
    return null;
  };
  const allotted: NodePort[] = [];
  for (const { port, nodePort } of instance.nodePorts) {
    const found = nodePort === 0 ? await draw(port) : nodePort;
    if (found === null)
      throw new PortsUsedUp('the region has no free node port; terminate an instance that has node ports');
    allotted.push({ port, nodePort: found });
  }
  return allotted;
}
