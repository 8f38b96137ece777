import { hasNewer, type ImageFacts, type KnownImage } from '../../../domain/regions/image-facts.ts';

const NO_SHELL =
  'this image has no /bin/sh, and Berth needs one: its start script runs by it; choose an image with a shell, or launch with "runImageCommand"';
const NO_COMMAND =
  'this image declares no command to run: it has neither ENTRYPOINT nor CMD; launch it without "runImageCommand"';

export function misfitOf({ declares, contains }: ImageFacts, runsImageCommand: boolean): string | null {
  if (runsImageCommand) return declares.entrypoint.length + declares.command.length === 0 ? NO_COMMAND : null;
  return contains?.shell === false ? NO_SHELL : null;
}

/** Null: nobody has looked. */
type Known = { [Name in keyof NonNullable<ImageFacts['contains']>]: boolean | null };

export type ImageDetails = ImageFacts['declares'] & Known;

export const detailsOf = ({ declares, contains }: ImageFacts): ImageDetails => ({
  ...declares,
  shell: contains?.shell ?? null,
  sshd: contains?.sshd ?? null,
  jupyter: contains?.jupyter ?? null,
});

export const inRegion = (known: KnownImage, region: string) => ({
  digest: known.regions[region]?.digests[0] ?? '',
  isNewerAvailable: hasNewer(known, region),
});

export function overallOf(known: KnownImage, regions: readonly string[]) {
  const has = regions.filter((region) => known.regions[region] !== undefined);
  const facts = has[0] === undefined ? undefined : known.regions[has[0]];
  return {
    digest: facts?.digests[0] ?? known.registryDigest,
    builtAtUnixMs: facts?.createdAtMs ?? 0,
    isNewerAvailable: has.some((region) => hasNewer(known, region)),
    details: facts === undefined ? null : detailsOf(facts),
    sizeBytes: facts?.sizeBytes ?? 0,
  };
}
