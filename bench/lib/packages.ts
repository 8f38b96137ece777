/** Installs Debian or Ubuntu packages that a bench needs, where possible. */
import { installPackages, maskServices, missingNeeds, whyNoApt, type Need } from '../../scripts/lib/apt.mjs';

const LOG = '/var/log/berth-setup.log';

/** Throws an error with instructions where installation is impossible. */
export async function ensurePackages(wanted: Need[]): Promise<void> {
  const deps = missingNeeds(wanted);
  if (deps.length === 0) return;
  const packages = deps.map(({ apt }) => apt);
  maskServices(deps);
  const why = whyNoApt() ?? (await installPackages({ packages, log: LOG }));
  if (why !== undefined)
    throw new Error(`${packages.join(', ')} could not be installed (${why}); install them by hand`);
}
