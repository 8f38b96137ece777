/** Labels of instances and volumes, and the filters of their lists. */
import { z } from 'zod';
import { labelKeyPattern, labelLimits, labelValuePattern, refusalOfLabels } from '../domain/kernel/resource-labels.ts';
import { accountSorts, instanceSorts, volumeSorts } from '../domain/kernel/list-sorts.ts';
import { instanceStatuses } from '../domain/compute/instance-states.ts';
import { answer, id, pagerRequest, plainText, request, text } from './common.ts';

const MAX_FILTER_CHARACTERS = 128;

const labels = z
  .record(z.string(), z.string())
  .superRefine((given, ctx) => {
    const message = refusalOfLabels(given);
    if (message !== null) ctx.addIssue({ code: 'custom', message, input: given });
  })
  .meta({
    maxProperties: labelLimits.count,
    propertyNames: { type: 'string', pattern: labelKeyPattern },
    additionalProperties: { type: 'string', pattern: labelValuePattern },
  });

export const newLabels = labels.describe('Labels of the new resource').optional();
export const shownLabels = z.record(z.string(), z.string()).describe('Labels; absent without any').optional();

export const nameFilter = plainText(MAX_FILTER_CHARACTERS)
  .describe('Only names that contain this text, in any letter case; or the resource with this ID')
  .optional();
export const statusFilter = z
  .array(z.enum(instanceStatuses))
  .min(1)
  .max(instanceStatuses.length)
  .describe('Only instances in one of these statuses')
  .optional();

/** `by` has the orders of the list. */
const sortBy = <const Names extends readonly [string, ...string[]]>(name: string, names: Names, terms: string) =>
  request(name, {
    by: z.enum(names).describe(terms),
    order: z.enum(['asc', 'desc']).describe('`asc`: smallest first'),
  })
    .describe('Order of the list; without it newest first. Equal items come newest first')
    .optional();
export const instanceSort = sortBy(
  'InstanceSort',
  instanceSorts,
  '`price`: of one period of the billing mode; `status`: in the order of the statuses in this document',
);
export const volumeSort = sortBy('VolumeSort', volumeSorts, '`usage`: bytes of the last measurement');
export const accountSort = sortBy('AccountSort', accountSorts, 'Field of the account');

const filters = {
  name: nameFilter,
  labels: labels.describe('Only resources with each of these labels').optional(),
};
const pager = pagerRequest.describe('Page to return');

export const instanceListRequest = request('ListInstancesRequest', {
  pager,
  ...filters,
  status: statusFilter,
  withoutReleased: z.boolean().describe('Leaves out instances in the status `Released`').optional(),
  sort: instanceSort,
});
export const volumeListRequest = request('ListVolumesRequest', { pager, ...filters, sort: volumeSort });

export const allLabels = labels.describe('All labels; others are removed');
export const volumeLabelRequest = request('LabelVolumeRequest', { id: id.describe('Volume ID'), labels: allLabels });
export const volumeLabelAnswer = answer('LabelVolumeAnswer', {
  id: text('Volume ID'),
  labels: z.record(z.string(), z.string()).describe('All labels'),
});
