/** Places of the rail, in their order. */
import {
  IconActivity,
  IconArchive,
  IconBuildingWarehouse,
  IconCreditCard,
  IconDatabase,
  IconGhost2,
  IconHeartbeat,
  IconKey,
  IconListDetails,
  IconServer,
  IconSettings,
  IconTags,
  IconUsers,
  type Icon,
} from '@tabler/icons-react';
import type { Texts } from '../texts/en/index.ts';
import type { Session } from './session.ts';

export interface Place {
  name: string;
  to: string;
  icon: Icon;
}

const everybody = [
  ['instances', '/instances', IconServer],
  ['volumes', '/volumes', IconDatabase],
  ['images', '/images', IconArchive],
  ['billing', '/billing', IconCreditCard],
  ['access', '/access', IconKey],
  ['activity', '/activity', IconActivity],
  ['settings', '/settings', IconSettings],
] as const;

const operators = [
  ['fleet', '/operator/fleet', IconBuildingWarehouse, 'operator'],
  ['accounts', '/operator/accounts', IconUsers, 'admin'],
  ['catalog', '/operator/catalog', IconTags, 'operator'],
  ['health', '/operator/health', IconHeartbeat, 'operator'],
  ['orphans', '/operator/orphans', IconGhost2, 'operator'],
  ['audit', '/operator/audit', IconListDetails, 'admin'],
] as const;

export const placesOf = ({ shell }: Texts): Place[] =>
  everybody.map(([key, to, icon]) => ({ name: shell.places[key], to, icon }));

/** Whether the page is the place, or within the place. */
export const isAt = (pathname: string, to: string): boolean => pathname === to || pathname.startsWith(`${to}/`);

/** What the role of the account may open. */
export const operatorPlacesOf = ({ shell }: Texts, { isOperator, isAdmin }: Session): Place[] =>
  operators
    .filter(([, , , role]) => (role === 'admin' ? isAdmin : isOperator))
    .map(([key, to, icon]) => ({ name: shell.operatorPlaces[key], to, icon }));
