/** The browser that is installed here, under any of the names it goes by. */
import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

export function browserPath(): string {
  const folders = (process.env['PATH'] ?? '').split(':');
  for (const path of NAMES.flatMap((name) => folders.map((folder) => join(folder, name)))) {
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      continue;
    }
  }
  throw new Error(`no browser: install one of ${NAMES.join(', ')}`);
}
