import type { EngineSpec } from '../../contract.ts';
import type { Service } from '../../../kubernetes/api-objects.ts';
import { instanceSelector, labelsFor, objectName, ownedBy, portsName } from './object-names.ts';

type Context = { installation: string; uid: string };

const metadataOf = ({ id, ownerId }: EngineSpec, name: string, { installation, uid }: Context) => ({
  name,
  labels: labelsFor({ installation, kind: 'instance' as const, id, ownerId }),
  ...ownedBy(id, uid),
});

/** Gives the Pod its name in the DNS of the cluster. */
export const headlessService = (spec: EngineSpec, context: Context): Service => ({
  metadata: metadataOf(spec, objectName(spec.id), context),
  spec: {
    clusterIP: 'None',
    selector: instanceSelector(context.installation, spec.id),
    publishNotReadyAddresses: true,
  },
});

export const portsService = (spec: EngineSpec, context: Context): Service => ({
  metadata: metadataOf(spec, portsName(spec.id), context),
  spec: {
    type: 'NodePort',
    selector: instanceSelector(context.installation, spec.id),
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
