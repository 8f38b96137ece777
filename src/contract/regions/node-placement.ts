/** Nodes of Pods in a cluster: of all instances, of a type, or of those with certain GPUs. */
import { z } from 'zod';
import { named } from '../common.ts';

export const kubernetesName = z
  .string()
  .regex(/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/, { error: 'must be a name of Kubernetes, such as fast-ssd' });
export const labelKey = z.string().min(1).max(317);
const labelText = z.string().max(63);
export const nodePlacement = ({ labels: most, rules }: { labels: number; rules: number }) => ({
  nodeSelector: z
    .record(labelKey, labelText)
    .refine((labels) => Object.keys(labels).length <= most, {
      error: `must have at most ${most} labels`,
    })
    .meta({ maxProperties: most })
    .describe('Labels of the nodes')
    .optional(),
  nodeAffinity: z
    .array(
      z.strictObject({
        key: labelKey.describe('Label of a node'),
        operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']).describe('As in Kubernetes'),
        values: z.array(labelText).max(8).describe('For `In` and `NotIn`').optional(),
      }),
    )
    .max(rules)
    .describe('Rules for the labels of the nodes, which all must hold')
    .optional(),
  tolerations: z
    .array(
      z.strictObject({
        key: labelKey.describe('Key of the taint').optional(),
        operator: z.enum(['Equal', 'Exists']).describe('By default `Equal`').optional(),
        value: labelText.describe('Value of the taint').optional(),
        effect: z.enum(['NoSchedule', 'PreferNoSchedule', 'NoExecute']).describe('By default each').optional(),
      }),
    )
    .max(rules)
    .describe('Tolerations of taints of the nodes')
    .optional(),
});

export const typePlacement = named(
  'TypePlacement',
  z.strictObject({
    ...nodePlacement({ labels: 8, rules: 8 }),
    priorityClass: kubernetesName.describe('PriorityClass, instead of that of the region').optional(),
  }),
  'Nodes of the instances of a type in a cluster, besides the rules of its region',
);
