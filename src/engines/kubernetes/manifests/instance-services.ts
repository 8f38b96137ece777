import type { EngineSpec } from '../../contract.ts';
import type { Service } from '../../../kubernetes/api-objects.ts';
import { instanceSelector, objectName, partMetadata, portsName, type PartOwner } from './object-names.ts';

/** Gives the Pod its name in the DNS of the cluster. */
export const headlessService = (spec: EngineSpec, owner: PartOwner): Service => ({
  metadata: partMetadata(spec, objectName(spec.id), owner),
  spec: {
    clusterIP: 'None',
    selector: instanceSelector(owner.installation, spec.id),
    publishNotReadyAddresses: true,
  },
});

export const portsService = (spec: EngineSpec, owner: PartOwner): Service => ({
  metadata: partMetadata(spec, portsName(spec.id), owner),
  spec: {
    type: 'NodePort',
    selector: instanceSelector(owner.installation, spec.id),
    publishNotReadyAddresses: true,
    // A Service has each of its own ports once; an instance may publish one port twice.
    ports: spec.nodePorts.map(({ port, nodePort }) => ({
      name: `port-${nodePort}`,
      protocol: 'TCP',
      port: nodePort,
      targetPort: port,
      nodePort,
    })),
  },
});
