/** Revokes access of open connections: rechecks on a revocation and periodically, and cuts. */
import { makeRechecker } from '../../async/coalesce.ts';
import { isStillAuthorized, type AdmissionDeps, type AccessGrant } from './admission.ts';
import { SwapRemoveList, type ListItem } from './swap-remove-list.ts';
import type { Forwarding, Log } from '../../control/index.ts';
import type { PortAddress } from './routing.ts';

export interface OpenAccess extends ListItem {
  readonly portAddress: PortAddress;
  readonly accessGrant: AccessGrant;
  readonly cut: () => void;
}

interface RevocationDeps extends AdmissionDeps, Pick<Forwarding, 'onRevoked'> {
  log: Log;
}

export class Revocation {
  readonly #open = new SwapRemoveList<OpenAccess>();
  readonly #deps: RevocationDeps;
  readonly #timer: NodeJS.Timeout;
  readonly #unfollow: () => void;
  #running = false;

  constructor(deps: RevocationDeps, everyMs: number) {
    this.#deps = deps;
    this.#timer = setInterval(() => void this.#recheckAll(), everyMs);
    this.#timer.unref();
    const recheck = makeRechecker((ids: ReadonlySet<string>) => this.#recheck(this.#affectedBy(ids)));
    this.#unfollow = deps.onRevoked((ended) => {
      recheck('accountId' in ended ? ended.accountId : ended.instanceId);
    });
  }

  watch(access: OpenAccess): void {
    this.#open.add(access);
  }

  done(access: OpenAccess): void {
    this.#open.delete(access);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#unfollow();
    for (const access of this.#open.all()) access.cut();
  }

  async #recheckAll(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    await this.#recheck(this.#open.all());
    this.#running = false;
  }

  #affectedBy(ids: ReadonlySet<string>): OpenAccess[] {
    const isAffected = ({ portAddress, accessGrant }: OpenAccess): boolean =>
      ids.has(portAddress.instanceId) || ('accountId' in accessGrant && ids.has(accessGrant.accountId));
    return this.#open.all().filter(isAffected);
  }

  /** Never rejects. */
  async #recheck(all: readonly OpenAccess[]): Promise<void> {
    // Checks each distinct credential once: many tabs share a session.
    const verdicts = new Map<string, boolean>();
    let unknown = 0;
    let why: unknown;
    for (const access of all) {
      if (access.at < 0) continue;
      const key = JSON.stringify([access.portAddress, access.accessGrant]);
      try {
        const verdict =
          verdicts.get(key) ?? (await isStillAuthorized(this.#deps, access.portAddress, access.accessGrant));
        verdicts.set(key, verdict);
        if (!verdict && access.at >= 0) access.cut();
      } catch (error) {
        unknown += 1;
        why ??= error;
      }
    }
    if (unknown === 0) return;
    this.#deps.log.warn(
      { err: why, connections: unknown },
      'could not recheck open connections; Berth retries at the next check',
    );
  }
}
