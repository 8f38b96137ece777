/** English: the language whose texts the others translate, one file a place of the console. */
import { common } from './common.ts';
import { instances } from './instances.ts';
import { parts } from './parts.ts';
import { reasons } from './reasons.ts';
import { shell } from './shell.ts';
import { statuses } from './statuses.ts';

/** Texts of the frame and of the first page. */
export const shared = { common, instances, parts, reasons, shell, statuses };

/** Texts of other places: each place loads its own. */
export const sections = {
  access: () => import('./access.ts').then(({ access }) => access),
  accounts: () => import('./accounts.ts').then(({ accounts }) => accounts),
  activity: () => import('./activity.ts').then(({ activity }) => activity),
  audit: () => import('./audit.ts').then(({ audit }) => audit),
  billing: () => import('./billing.ts').then(({ billing }) => billing),
  budgets: () => import('./budgets.ts').then(({ budgets }) => budgets),
  catalog: () => import('./catalog.ts').then(({ catalog }) => catalog),
  files: () => import('./files.ts').then(({ files }) => files),
  fleet: () => import('./fleet.ts').then(({ fleet }) => fleet),
  health: () => import('./health.ts').then(({ health }) => health),
  images: () => import('./images.ts').then(({ images }) => images),
  instance: () => import('./instance.ts').then(({ instance }) => instance),
  launch: () => import('./launch.ts').then(({ launch }) => launch),
  operator: () => import('./operator.ts').then(({ operator }) => operator),
  orphans: () => import('./orphans.ts').then(({ orphans }) => orphans),
  settings: () => import('./settings.ts').then(({ settings }) => settings),
  volumes: () => import('./volumes.ts').then(({ volumes }) => volumes),
  welcome: () => import('./welcome.ts').then(({ welcome }) => welcome),
};

export type Section = keyof typeof sections;
export type Texts = typeof shared & { [S in Section]: Awaited<ReturnType<(typeof sections)[S]>> };
export interface LanguageTexts {
  shared: Pick<Texts, keyof typeof shared>;
  sections: { [S in Section]: () => Promise<Texts[S]> };
}
