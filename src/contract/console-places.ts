/** First parts of the paths of the console, which the API's server answers with its page. */
export const consolePlaces = [
  'instances',
  'launch',
  'volumes',
  'images',
  'billing',
  'access',
  'activity',
  'settings',
  'welcome',
  'operator',
] as const;

/** The page that asks the gateway as well: what is in front of it. */
export const CHECKING_PLACE = '/operator/health';

/** Whether a path of this server is a view of the console. */
export const isConsolePath = (path: string): boolean =>
  path === '/' || consolePlaces.some((place) => path === `/${place}` || path.startsWith(`/${place}/`));
