/** English: the language whose texts the others translate, one file a place of the console. */
import { access } from './access.ts';
import { accounts } from './accounts.ts';
import { activity } from './activity.ts';
import { audit } from './audit.ts';
import { billing } from './billing.ts';
import { budgets } from './budgets.ts';
import { catalog } from './catalog.ts';
import { common } from './common.ts';
import { files } from './files.ts';
import { fleet } from './fleet.ts';
import { health } from './health.ts';
import { images } from './images.ts';
import { instance } from './instance.ts';
import { instances } from './instances.ts';
import { launch } from './launch.ts';
import { operator } from './operator.ts';
import { orphans } from './orphans.ts';
import { parts } from './parts.ts';
import { reasons } from './reasons.ts';
import { settings } from './settings.ts';
import { shell } from './shell.ts';
import { statuses } from './statuses.ts';
import { volumes } from './volumes.ts';
import { welcome } from './welcome.ts';

export const en = {
  access,
  accounts,
  activity,
  audit,
  billing,
  budgets,
  catalog,
  common,
  files,
  fleet,
  health,
  images,
  instance,
  instances,
  launch,
  operator,
  orphans,
  parts,
  reasons,
  settings,
  shell,
  statuses,
  volumes,
  welcome,
};
export type Texts = typeof en;
