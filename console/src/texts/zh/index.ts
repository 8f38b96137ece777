import type { LanguageTexts } from '../en/index.ts';
import { common } from './common.ts';
import { instances } from './instances.ts';
import { parts } from './parts.ts';
import { reasons } from './reasons.ts';
import { shell } from './shell.ts';
import { statuses } from './statuses.ts';

export const zh: LanguageTexts = {
  shared: { common, instances, parts, reasons, shell, statuses },
  sections: {
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
  },
};
