/** Images of the operator and of the account (docs/interface.md §10, catalog). */
import { z } from 'zod';
import { decimal, id, label, named, pagerAnswer, plainText, text } from './common.ts';

const image = named(
  'Image',
  z.strictObject({
    imageId: text('Image ID, for a launch'),
    name: text('Image name'),
    architecture: text('CPU architecture'),
    isPublic: text('`true` for an image of the operator, `false` for one of the account'),
    tags: z.array(z.string()).nullable().describe('Tags, or null'),
    type: text('Kind of image'),
    ref: text('Reference the account registered; empty for images of the operator'),
    sizeBytes: decimal('Size of a saved image, shared layers included; 0 for others'),
    state: z
      .enum(['Ready', 'Absent', 'Preparing', 'Failed', 'Saving'])
      .describe("State on the region's engine; `Saving`: being saved from an instance"),
    stateText: text('Current step or cause of a failure; may be empty'),
    progressPercent: decimal('Progress while `Preparing`, 0 to 100'),
  }),
);

export const imageListAnswer = named(
  'ListImagesAnswer',
  z.strictObject({
    images: z.array(image).describe('Images of the page'),
    pager: pagerAnswer.describe('Page and length of the list'),
  }),
);

const MAX_REF = 500;

export const imageIdBody = named('ImageIdRequest', z.object({ imageId: id.describe('Image ID') }));
export const imageIdAnswer = named('ImageIdAnswer', z.strictObject({ imageId: text('Image ID') }));

export const imageCreateRequest = named(
  'CreateImageRequest',
  z.object({
    name: label(128).describe('Display name'),
    ref: plainText(MAX_REF).describe('Reference in a registry, such as `docker.io/library/python:3.13`'),
  }),
);
export const imageSaveRequest = named(
  'SaveImageRequest',
  z.object({ instanceId: id.describe('Instance ID'), name: label(128).describe('Display name') }),
);
