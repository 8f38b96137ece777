export interface ImageFacts {
  /** Digests in the registry of the name; none: an image built or loaded on the host. */
  digests: string[];
  createdAtMs: number;
  sizeBytes: number;
  declares: {
    entrypoint: string[];
    command: string[];
    user: string;
    workingDir: string;
    ports: number[];
    volumes: string[];
    healthCheck: string[];
  };
  /** Null: nobody has looked. */
  contains: { shell: boolean; sshd: boolean; jupyter: boolean } | null;
}

export interface KnownImage {
  registryDigest: string;
  regions: Record<string, ImageFacts>;
}

export const unknownImage: KnownImage = { registryDigest: '', regions: {} };

export const hasNewer = ({ registryDigest, regions }: KnownImage, regionId: string): boolean => {
  const facts = regions[regionId];
  return (
    facts !== undefined && registryDigest !== '' && facts.digests.length > 0 && !facts.digests.includes(registryDigest)
  );
};

/** Searched beside the image's PATH (images/start.sh). */
export const PROGRAM_FOLDERS = [
  '/usr/local/sbin',
  '/usr/local/bin',
  '/usr/sbin',
  '/usr/bin',
  '/sbin',
  '/bin',
  '/opt/conda/bin',
  '/opt/berth/bin',
];
