import type { Texts } from '../en/index.ts';
import { common } from './common.ts';
import { instances } from './instances.ts';
import { launch } from './launch.ts';
import { shell } from './shell.ts';
import { statuses } from './statuses.ts';

export const zh: Texts = { common, instances, launch, shell, statuses };
