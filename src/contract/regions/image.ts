/** Images of the operator and of the account (docs/interface.md §10, catalog). */
import { z } from 'zod';
import { imageStates } from '../../domain/regions/catalog.ts';
import {
  answer,
  decimal,
  empty,
  emptyAnswer,
  id,
  idBody,
  label,
  pagerAnswer,
  pageRequest,
  plainText,
  request,
  secret,
  text,
  unixMs,
} from '../common.ts';
import { decision, jsonRoute, operationRoute, readRoute } from '../route.ts';

const stateFields = {
  state: z.enum(imageStates).describe("State on the region's engine; `Saving`: being saved from an instance"),
  stateText: text('Current step, cause of a failure, or why the registry was not asked yet; may be empty'),
  progressPercent: decimal('Progress while `Preparing`, 0 to 100'),
};

const digestFields = {
  digest: text('Digest in the registry, as `sha256:…`; may be empty'),
  isNewerAvailable: z
    .boolean()
    .describe('The registry has another image under the name; the next launch has it, and `/image/refresh` fetches it'),
};

const texts = (of: string) => z.array(z.string()).describe(of);
const known = (of: string) => z.boolean().nullable().describe(`Whether it has ${of}; null when not known`);

const imageDetails = answer('ImageDetails', {
  entrypoint: texts('Entry point that the image declares'),
  command: texts('Command that the image declares'),
  user: text('User that the image declares; empty: root'),
  workingDir: text('Folder that the image declares; may be empty'),
  ports: z.array(z.number()).describe('TCP ports that the image declares, the first 100'),
  volumes: texts('Volumes that the image declares, the first 100'),
  healthCheck: texts('Health check that the image declares; may be empty'),
  shell: known('`/bin/sh`, without which no instance starts'),
  sshd: known('sshd; others get the built-in ssh server'),
  jupyter: known('JupyterLab, Notebook or Jupyter Server'),
});

const regionImage = answer('RegionImage', {
  region: text('Region ID'),
  architecture: text('CPU architecture of the region; may be empty'),
  ...digestFields,
  ...stateFields,
});

const image = answer('Image', {
  imageId: text('Image ID, for a launch'),
  name: text('Image name'),
  architecture: text('CPU architecture; empty where `regions` have several'),
  isPublic: text('`true` for an image of the operator, `false` for one of the account'),
  tags: z.array(z.string()).nullable().describe('Tags, or null'),
  type: text('Kind of image'),
  ref: text('Reference the account registered; empty for images of the operator'),
  sizeBytes: decimal('Size, shared layers included; 0 before a region has the image'),
  ...digestFields,
  builtAtUnixMs: unixMs('Time at which the image was built; 0 when not known'),
  details: imageDetails.nullable().describe('What the image declares and contains; null before a region has it'),
  ...stateFields,
  state: z.enum(imageStates).describe('Most telling state of `regions`; `Saving`: being saved from an instance'),
  regions: z.array(regionImage).describe('State in each region in which the image can be launched'),
});

export const imageListAnswer = answer('ListImagesAnswer', {
  images: z.array(image).describe('Images of the page'),
  pager: pagerAnswer.describe('Page and length of the list'),
});

const MAX_REF = 500;

export const imageIdBody = request('ImageIdRequest', { imageId: id.describe('Image ID') });
export const imageIdAnswer = answer('ImageIdAnswer', { imageId: text('Image ID') });

export const imageCreateRequest = request('CreateImageRequest', {
  name: label(128).describe('Display name'),
  ref: plainText(MAX_REF).describe('Reference in a registry, such as `docker.io/library/python:3.13`'),
});
export const imageSaveRequest = request('SaveImageRequest', {
  instanceId: id.describe('Instance ID'),
  name: label(128).describe('Display name'),
});

const MAX_SERVER = 300;
const MAX_USERNAME = 300;
/** Tokens of cloud registries have thousands of characters. */
const MAX_SECRET = 16_384;

export const registryCreateRequest = request('CreateRegistryRequest', {
  server: plainText(MAX_SERVER).describe('Registry host, such as `ghcr.io`'),
  username: plainText(MAX_USERNAME).describe('User name at the registry'),
  secret: secret(1, MAX_SECRET).describe('Password or token at the registry'),
});

const registryFields = {
  id: text('ID of the credentials'),
  server: text('Registry host'),
  username: text('User name at the registry'),
};
export const registryCreateAnswer = answer('CreateRegistryAnswer', {
  registry: answer('NewRegistry', registryFields).describe('The credentials, without the secret'),
});
const registry = answer('Registry', { ...registryFields, createdAt: unixMs('Creation time') });
export const registryListAnswer = answer('ListRegistriesAnswer', {
  registries: z.array(registry).describe('Credentials, without secrets'),
});

export const imageRoutes = {
  listImages: readRoute('/image/list', pageRequest, imageListAnswer, {
    compressed: true,
    summary: "List the images for launches: the operator's, then the caller's own",
    source: decision('catalog'),
  }),
  createImage: jsonRoute('/image/create', imageCreateRequest, imageIdAnswer, {
    idempotent: true,
    lasting: { scope: 'instances' },
    summary: 'Register an image of a registry for your account; the registry is asked for it',
  }),
  saveImage: operationRoute('/image/save', imageSaveRequest, imageIdAnswer, {
    summary: 'Save the root disk of a Running or Stopped instance as an image; a running instance is paused meanwhile',
  }),
  deleteImage: operationRoute('/image/delete', imageIdBody, imageIdAnswer, {
    summary: 'Delete an image of your own',
  }),
  refreshImage: operationRoute('/image/refresh', imageIdBody, imageIdAnswer, {
    summary: 'Download what the registry has now for an image of your own; instances keep what they have',
  }),
  createRegistry: jsonRoute('/registry/create', registryCreateRequest, registryCreateAnswer, {
    idempotent: true,
    lasting: { scope: 'instances' },
    summary: 'Store credentials for a registry of your images, one for each server',
  }),
  listRegistries: readRoute('/registry/list', empty, registryListAnswer, {
    summary: "List the caller's registry credentials, without their secrets",
  }),
  deleteRegistry: jsonRoute('/registry/delete', idBody, emptyAnswer, {
    idempotent: true,
    summary: 'Delete registry credentials',
  }),
} as const;
