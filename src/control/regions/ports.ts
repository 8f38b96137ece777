export { dockerSupport } from './capacity/docker-support.ts';
export { makeSetDrain, type SetDrain } from './capacity/drain.ts';
export { catalogWithinHosts, refuseOverHosts } from './capacity/host-fit.ts';
export {
  advanceQueue,
  exchangeCapacity,
  queuedDiagnosis,
  reevaluateQueue,
  releaseCapacity,
  reserveInQueueOrder,
  reserveOrEnqueue,
  type EnqueueOptions,
} from './capacity/queue.ts';
export type { ImagePulls } from './images/image-pulls.ts';
export { misfitOf } from './images/image-details.ts';
export type { EnsuredImage, ImageRequest } from './images/newest-image.ts';
export {
  architectureOf,
  isMissingLocally,
  imageNotFound,
  imageOfSpec,
  makeImages,
  resolveImage,
  type ImageDeps,
} from './images/images.ts';
export { makeInstanceProgressReporter } from './images/progress-reporter.ts';
export { withCredentialAdvice, type CredentialsFor } from './images/registries.ts';
export type { RegionParts } from './wire.ts';
