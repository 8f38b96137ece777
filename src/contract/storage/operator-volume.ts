/** Volumes of all accounts for operators. */
import { z } from 'zod';
import { answer, pagerAnswer, request } from '../common.ts';
import { volumeSort } from '../list-filters.ts';
import { ofOwners, owner } from '../compute/operator.ts';
import { volume } from './volume.ts';
import { operatorReadRoute } from '../route.ts';

export const volumesRequest = request('ListAllVolumesRequest', { ...ofOwners, sort: volumeSort });
export const volumesAnswer = answer('ListAllVolumesAnswer', {
  volumes: z
    .array(answer('OwnedVolume', { ...owner, volume: volume.describe('The volume') }))
    .describe('Volumes of the page'),
  pager: pagerAnswer.describe('Page and length of the list'),
});

export const operatorVolumeRoutes = {
  listAllVolumes: operatorReadRoute('/admin/volume/list', volumesRequest, volumesAnswer, {
    compressed: true,
    summary: 'List the volumes of all accounts with size and usage, newest first (operators)',
  }),
} as const;
