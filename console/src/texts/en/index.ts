/** English: the language whose texts the others translate, one file a place of the console. */
import { common } from './common.ts';
import { instances } from './instances.ts';
import { launch } from './launch.ts';
import { shell } from './shell.ts';
import { statuses } from './statuses.ts';

export const en = { common, instances, launch, shell, statuses };
export type Texts = typeof en;
