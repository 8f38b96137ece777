/** Creates the control group of all instances and applies its settings (`instance-group.ts`). */
import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { errorCode, errorText } from '../../../domain/kernel/unknown-error.ts';
import type { GroupSetting, InstanceGroup } from './instance-group.ts';
import { CGROUPS } from './process-group.ts';

const SYSTEMCTL_MS = 10_000;

/** Null, or why the group lacks settings. */
export async function ensureInstanceGroup(group: InstanceGroup, folder = CGROUPS): Promise<string | null> {
  try {
    if (group.driver === 'systemd') await setProperties(group);
    else for (const setting of group.settings) await apply(setting, group, folder);
    return null;
  } catch (error) {
    return errorText(error);
  }
}

/** Lasts until the next start of the host. */
const setProperties = async ({ parent, properties }: InstanceGroup & { driver: 'systemd' }): Promise<void> =>
  void (await promisify(execFile)('systemctl', ['set-property', '--runtime', parent, ...properties], {
    timeout: SYSTEMCTL_MS,
  }));

async function apply(
  { controller, file, value, optional }: GroupSetting,
  { parent, version }: InstanceGroup & { driver: 'cgroupfs' },
  folder: string,
): Promise<void> {
  const root = version === 1 ? path.join(folder, controller) : folder;
  try {
    if (version === 2) await writeFile(path.join(root, 'cgroup.subtree_control'), `+${controller}`);
    await makeFolder(path.join(root, parent));
    const setting = path.join(root, parent, file);
    if ((await readFile(setting, 'utf8')).trim() !== value) await writeFile(setting, value);
  } catch (error) {
    if (optional === undefined) throw error;
  }
}

async function makeFolder(folder: string): Promise<void> {
  await mkdir(folder).catch((error: unknown) => {
    if (errorCode(error) !== 'EEXIST') throw error;
  });
}
