import type { HostFacts } from '../../../src/engines/docker/client/host-facts.ts';
import { isolated } from '../../fixtures/isolation.ts';

/** Facts of a local Docker on a small machine without GPUs. */
export const hostFacts = (over: Partial<HostFacts> = {}): HostFacts => ({
  podman: false,
  version: '0',
  architecture: 'amd64',
  cores: 2,
  memoryMiB: 1000,
  hasInit: true,
  rootless: false,
  openFiles: 1,
  perUser: [],
  rootDiskLimit: false,
  dataRoot: null,
  countsRootDisks: false,
  gpuDriver: null,
  gpus: [],
  whyNoGpus: null,
  dial: true,
  nsenter: null,
  whyNoDocker: null,
  cgroupVersion: 1,
  sharesLimits: false,
  cgroupParent: null,
  diskRates: [],
  processors: null,
  lxcfs: { whyNot: 'it is a test' },
  userNamespace: null,
  isolation: isolated,
  setsCallFilter: true,
  ...over,
});
