import type { Texts } from '../en/index.ts';
import { billing } from './billing.ts';
import { budgets } from './budgets.ts';
import { common } from './common.ts';
import { files } from './files.ts';
import { instances } from './instances.ts';
import { launch } from './launch.ts';
import { parts } from './parts.ts';
import { shell } from './shell.ts';
import { statuses } from './statuses.ts';
import { volumes } from './volumes.ts';

export const zh: Texts = { billing, budgets, common, files, instances, launch, parts, shell, statuses, volumes };
