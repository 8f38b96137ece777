/** Instances and volumes of all accounts for operators; their actions; drains of regions. */
import { z } from 'zod';
import { answer, id, label, pagerAnswer, pagerRequest, plainText, request, text, wholeNumber } from './common.ts';
import { regionDrain } from './catalog.ts';
import { instance } from './instance.ts';
import { instanceSort, nameFilter, statusFilter, volumeSort } from './list-filters.ts';
import { volume } from './volume.ts';

const MAX_MINUTES = 7 * 24 * 60;

const filters = {
  pager: pagerRequest.describe('Page to return'),
  account: plainText(320).describe('Only of this account: its ID, user name or email address').optional(),
  regionId: id.describe('Only of this region').optional(),
  name: nameFilter,
};
const owner = {
  accountId: text('Account of the owner'),
  username: text('User name of the owner'),
};
const pager = pagerAnswer.describe('Page and length of the list');

export const instancesRequest = request('ListAllInstancesRequest', {
  ...filters,
  status: statusFilter,
  sort: instanceSort,
});
export const instancesAnswer = answer('ListAllInstancesAnswer', {
  instances: z
    .array(answer('OwnedInstance', { ...owner, instance: instance.describe('The instance') }))
    .describe('Instances of the page'),
  pager,
});

export const volumesRequest = request('ListAllVolumesRequest', { ...filters, sort: volumeSort });
export const volumesAnswer = answer('ListAllVolumesAnswer', {
  volumes: z
    .array(answer('OwnedVolume', { ...owner, volume: volume.describe('The volume') }))
    .describe('Volumes of the page'),
  pager,
});

const reason = label(500).describe('Reason, shown to the owner');
const target = { instanceId: id.describe('Instance ID'), reason };
export const actRequest = request('OperatorActionRequest', target);
export const startRequest = request('OperatorStartRequest', {
  ...target,
  withoutGpu: z.boolean().default(false).describe('Run without the GPUs of the type until the next start'),
});

export const drainRequest = request('DrainRegionRequest', {
  regionId: id.describe('Region ID'),
  drain: z.boolean().describe('True: no new launches and starts; false: ends the drain'),
  reason: label(500).describe('Reason, shown to accounts'),
  stopRunningAfterMinutes: wholeNumber(0, MAX_MINUTES)
    .describe('Stops what still runs after this time; without it, running instances stay')
    .optional(),
});
export const drainAnswer = answer('DrainRegionAnswer', {
  regionId: text('Region ID'),
  drain: regionDrain,
});
