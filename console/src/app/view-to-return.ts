import { base } from './base.ts';
import { isConsolePath } from '../../../src/contract/console-places.ts';

/** The login page leads back to views of this length, and to none with a backslash. */
const MOST_LENGTH = 2_000;

export function viewToReturn({ pathname: path, search }: { pathname: string; search: string }, below = base): string {
  const pathname = path.startsWith(below) ? path.slice(below.length) || '/' : path;
  if (!isConsolePath(pathname)) return '/';
  const view = `${pathname}${search}`.replaceAll('\\', '%5C');
  return view.length > MOST_LENGTH ? pathname : view;
}
