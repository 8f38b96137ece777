/** Template of the claims of an instance: the cluster makes one for each Pod. */
import { createHash } from 'node:crypto';
import type { ResourceClaimTemplate } from '../../../kubernetes/api-objects.ts';
import type { EngineSpec } from '../../contract.ts';
import type { ClaimRequest } from '../gpu-resources.ts';
import { objectName, partMetadata, type PartOwner } from './object-names.ts';

export const POD_CLAIM = 'gpus';

type ClaimSpec = ResourceClaimTemplate['spec']['spec'];

function claimSpec(count: number, { claim, model }: ClaimRequest): ClaimSpec {
  const { deviceClass, selector, modelAttribute } = claim;
  const [domain = '', attribute = ''] = modelAttribute.split('/');
  const values = `device.attributes[${JSON.stringify(domain)}]`;
  // A device without the attribute would end the search.
  const isModel = `has(${values}.${attribute}) && ${values}.${attribute} == ${JSON.stringify(model)}`;
  const selectors = [...(selector === undefined ? [] : [selector]), isModel].map((expression) => ({
    cel: { expression },
  }));
  return {
    devices: {
      requests: [
        { name: 'gpu', exactly: { deviceClassName: deviceClass, allocationMode: 'ExactCount', count, selectors } },
      ],
    },
  };
}

/** Templates can't be changed: another request has another name. */
export function claimTemplateName({ id, gpus }: EngineSpec, claimed: ClaimRequest): string {
  const digest = createHash('sha256')
    .update(JSON.stringify(claimSpec(gpus, claimed)))
    .digest('hex');
  return `${objectName(id)}-${digest.slice(0, 8)}`;
}

export function claimTemplate(spec: EngineSpec, claimed: ClaimRequest, owner: PartOwner): ResourceClaimTemplate {
  const metadata = partMetadata(spec, claimTemplateName(spec, claimed), owner);
  return { metadata, spec: { metadata: { labels: metadata.labels ?? {} }, spec: claimSpec(spec.gpus, claimed) } };
}
