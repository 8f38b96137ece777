/** Rows for operators and administrators. */
import * as account from './account.ts';
import * as admin from './admin.ts';
import * as audit from './audit.ts';
import { empty } from './common.ts';
import * as environment from './environment.ts';
import { adminReadRoute, adminRoute, operatorReadRoute, operatorRoute } from './route.ts';

export const adminRoutes = {
  createUser: adminRoute('/user/create', account.userCreateRequest, account.userInfoAnswer, {
    idempotent: true,
    summary: 'Create an account (administrators)',
  }),
  listStrays: operatorReadRoute('/admin/stray/list', empty, admin.orphanListAnswer, {
    summary: 'List orphans: resources of this installation without a record (administrators)',
  }),
  handleStray: operatorRoute('/admin/stray/handle', admin.orphanHandleRequest, admin.orphanHandleAnswer, {
    summary:
      'Adopt, stop or delete an orphan; an adopted instance keeps its mounts while its container lives (administrators)',
  }),
  listHeldDisks: operatorReadRoute('/admin/disk/held', empty, admin.heldDiskListAnswer, {
    summary: 'List disks that processes of the host keep from being removed (administrators)',
  }),
  listTasks: operatorReadRoute('/admin/task/list', empty, admin.taskListAnswer, {
    summary: 'List background tasks of the server and how their last run went (administrators)',
  }),
  listAudit: adminReadRoute('/admin/audit/list', audit.auditListRequest, audit.auditListAnswer, {
    compressed: true,
    summary: 'List the audit log: who did what to which resource, with what outcome (administrators)',
  }),
  listInstallationEnvironment: adminReadRoute('/admin/environment/list', empty, environment.environmentListAnswer, {
    summary: "List the installation's environment variables (administrators)",
  }),
  setInstallationEnvironment: adminRoute(
    '/admin/environment/set',
    environment.environmentSetRequest,
    environment.environmentChangeAnswer,
    {
      idempotent: true,
      lasting: { scope: 'instances' },
      summary: 'Set environment variables for all instances; others stay (administrators)',
    },
  ),
  deleteInstallationEnvironment: adminRoute(
    '/admin/environment/delete',
    environment.environmentDeleteRequest,
    environment.environmentChangeAnswer,
    {
      idempotent: true,
      lasting: { scope: 'instances' },
      summary: "Delete the installation's environment variables (administrators)",
    },
  ),
} as const;
