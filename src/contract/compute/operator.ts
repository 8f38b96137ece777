/** Instances of all accounts for operators, and their actions. */
import { z } from 'zod';
import { answer, id, instanceIdBody, label, pagerAnswer, pagerRequest, plainText, request, text } from '../common.ts';
import { instance, instanceIdAnswer, newRootDisk } from './instance.ts';
import { instanceSort, nameFilter, statusFilter } from '../list-filters.ts';
import { operatorInstanceAnswer } from './operation.ts';
import { operatorReadRoute, operatorRoute } from '../route.ts';

export const ofOwners = {
  pager: pagerRequest.describe('Page to return'),
  account: plainText(320).describe('Only of this account: its ID, user name or email address').optional(),
  regionId: id.describe('Only of this region').optional(),
  name: nameFilter,
};
export const owner = {
  accountId: text('Account of the owner'),
  username: text('User name of the owner'),
};
const pager = pagerAnswer.describe('Page and length of the list');

export const instancesRequest = request('ListAllInstancesRequest', {
  ...ofOwners,
  status: statusFilter,
  sort: instanceSort,
});
export const instancesAnswer = answer('ListAllInstancesAnswer', {
  instances: z
    .array(answer('OwnedInstance', { ...owner, instance: instance.describe('The instance') }))
    .describe('Instances of the page'),
  pager,
});

const reason = label(500).describe('Reason, shown to the owner');
const target = { instanceId: id.describe('Instance ID'), reason };
export const actRequest = request('OperatorActionRequest', target);
export const startRequest = request('OperatorStartRequest', {
  ...target,
  withoutGpu: z.boolean().default(false).describe('Run without the GPUs of the type until the next start'),
  newRootDisk,
});

export const operatorInstanceRoutes = {
  listAllInstances: operatorReadRoute('/admin/instance/list', instancesRequest, instancesAnswer, {
    compressed: true,
    summary: 'List the instances of all accounts, newest first (operators)',
  }),
  getAnyInstance: operatorReadRoute('/admin/instance/get', instanceIdBody, operatorInstanceAnswer, {
    summary: 'Return an instance of any account with the timeline of its last start (operators)',
  }),
  stopAnyInstance: operatorRoute('/admin/instance/stop', actRequest, instanceIdAnswer, {
    idempotent: true,
    summary: 'Stop an instance of any account; its disks stay (operators)',
  }),
  startAnyInstance: operatorRoute('/admin/instance/start', startRequest, instanceIdAnswer, {
    idempotent: true,
    waits: true,
    summary: 'Start a stopped instance of any account, at the cost of its owner (operators)',
  }),
  terminateAnyInstance: operatorRoute('/admin/instance/terminate', actRequest, instanceIdAnswer, {
    idempotent: true,
    summary: 'Terminate an instance of any account: its disks are lost (operators)',
  }),
} as const;
