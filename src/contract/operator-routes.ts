/** Rows for operators: instances and volumes of all accounts, and drains. */
import { empty } from './common.ts';
import * as egress from './egress.ts';
import { fleetAnswer } from './fleet.ts';
import { instanceIdAnswer, instanceIdBody } from './instance.ts';
import { operatorInstanceAnswer } from './operation.ts';
import * as operator from './operator.ts';
import { adminReadRoute, adminRoute, operatorReadRoute, operatorRoute } from './route.ts';

export const operatorRoutes = {
  fleet: operatorReadRoute('/admin/fleet', empty, fleetAnswer, {
    compressed: true,
    summary: 'Show the capacity of each region: GPUs with their holders, pools, and what would fit now (operators)',
  }),
  listAllInstances: operatorReadRoute('/admin/instance/list', operator.instancesRequest, operator.instancesAnswer, {
    compressed: true,
    summary: 'List the instances of all accounts, newest first (operators)',
  }),
  getAnyInstance: operatorReadRoute('/admin/instance/get', instanceIdBody, operatorInstanceAnswer, {
    summary: 'Return an instance of any account with the timeline of its last start (operators)',
  }),
  stopAnyInstance: operatorRoute('/admin/instance/stop', operator.actRequest, instanceIdAnswer, {
    idempotent: true,
    summary: 'Stop an instance of any account; its disks stay (operators)',
  }),
  startAnyInstance: operatorRoute('/admin/instance/start', operator.startRequest, instanceIdAnswer, {
    idempotent: true,
    waits: true,
    summary: 'Start a stopped instance of any account, at the cost of its owner (operators)',
  }),
  terminateAnyInstance: operatorRoute('/admin/instance/terminate', operator.actRequest, instanceIdAnswer, {
    idempotent: true,
    summary: 'Terminate an instance of any account: its disks are lost (operators)',
  }),
  listAllVolumes: operatorReadRoute('/admin/volume/list', operator.volumesRequest, operator.volumesAnswer, {
    compressed: true,
    summary: 'List the volumes of all accounts with size and usage, newest first (operators)',
  }),
  drainRegion: operatorRoute('/admin/region/drain', operator.drainRequest, operator.drainAnswer, {
    idempotent: true,
    summary: 'Drain a region: no launches and starts; running instances stay, or are stopped after a time (operators)',
  }),
  getEgress: adminReadRoute('/admin/egress/get', egress.egressGetRequest, egress.egressAnswer, {
    summary: 'Return the egress policy of a region or an account (administrators)',
  }),
  setEgress: adminRoute('/admin/egress/set', egress.egressSetRequest, egress.egressAnswer, {
    idempotent: true,
    summary: 'Set what instances of a region or an account may connect to, running ones too (administrators)',
  }),
} as const;
