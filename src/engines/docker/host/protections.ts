/** Reads from the facts of the engine which protections its containers have. Pure. */
import type { Isolation } from '../../contract.ts';
import { FILTERED_ARCHITECTURES } from '../container/call-filter.ts';

export interface EngineProtections {
  shown: Pick<Isolation, 'callFilter' | 'whyNoCallFilter' | 'securityModule' | 'whyNoSecurityModule'>;
  /** Instances get the filter of Berth: that of the engine depends on its version. */
  setsCallFilter: boolean;
}

export interface ProtectionFacts {
  podman: boolean;
  architecture: string;
  /** Such as `name=seccomp,profile=default`. */
  securityOptions: readonly string[];
}

export function protectionsOf({ podman, architecture, securityOptions }: ProtectionFacts): EngineProtections {
  const has = (name: string): boolean => securityOptions.some((option) => option.split(',').includes(`name=${name}`));
  const profile = /^name=seccomp,profile=(.+)$/m.exec(securityOptions.join('\n'))?.[1] ?? 'default';
  const whyNoCallFilter = !has('seccomp')
    ? 'its kernel or engine has no seccomp, so instances may make every system call; the operator can enable it'
    : podman
      ? 'its engine is Podman, and Berth cannot see which system calls its filter refuses'
      : !ENGINE_PROFILES.includes(profile)
        ? `its operator gave the engine a filter (${profile}), and Berth cannot see which system calls it refuses`
        : FILTERED_ARCHITECTURES.includes(architecture)
          ? null
          : `Berth has no filter for its architecture (${architecture}), and that of the engine may be old`;
  const securityModule = has('apparmor') || has('selinux');
  return {
    setsCallFilter: whyNoCallFilter === null,
    shown: {
      callFilter: whyNoCallFilter === null,
      ...(whyNoCallFilter === null ? {} : { whyNoCallFilter }),
      securityModule,
      ...(securityModule ? {} : { whyNoSecurityModule: NO_MODULE }),
    },
  };
}

/** Names of the profile of the engine itself, by version, and of none. */
const ENGINE_PROFILES = ['default', 'builtin', 'unconfined'];
const NO_MODULE =
  'its engine uses neither AppArmor nor SELinux; the operator can enable one and restart the engine (on Debian: apt install apparmor)';
