import type { EngineSpec } from '../../contract.ts';
import type { StatefulSet } from '../../../kubernetes/api-objects.ts';
import { filesDigest } from './control-secret.ts';
import { annotations, instanceSelector, labelsFor, objectName } from './object-names.ts';
import { podTemplate, type PodContext } from './pod-template.ts';

export interface SetOptions extends PodContext {
  replicas: 0 | 1;
  /** Present StatefulSet: another one is not changed. */
  uid?: string | undefined;
}

/** Changes of the template wait for the next Pod. */
export function instanceSet(spec: EngineSpec, { replicas, uid, ...context }: SetOptions): StatefulSet {
  const { installation } = context;
  const identity = { installation, kind: 'instance' as const, id: spec.id, ownerId: spec.ownerId };
  return {
    metadata: {
      name: objectName(spec.id),
      ...(uid === undefined ? {} : { uid }),
      labels: labelsFor(identity),
      annotations: {
        [annotations.generation]: String(spec.generation),
        [annotations.imageRef]: spec.imageRef,
        [annotations.nodePorts]: JSON.stringify(spec.nodePorts),
        [annotations.files]: filesDigest(spec.files),
      },
    },
    spec: {
      replicas,
      serviceName: objectName(spec.id),
      podManagementPolicy: 'Parallel',
      updateStrategy: { type: 'OnDelete' },
      revisionHistoryLimit: 1,
      selector: { matchLabels: instanceSelector(installation, spec.id) },
      template: podTemplate(spec, context),
    },
  };
}
