/** Image and instance type, with live stock. */
import { Anchor, Group, NativeSelect, Radio, Stack, Switch, Text, Title } from '@mantine/core';
import { useFormat } from '../../app/format.ts';
import { ImageFacts } from '../../parts/image-facts.tsx';
import { useTexts } from '../../texts/provider.tsx';
import type { BlockProps } from './block.ts';
import { nearestTo, priceOf, type Image, type Offer } from './draft.ts';
import classes from './launch.module.css';
import { Note } from './note.tsx';
import { gpuPriceOf, groupsOf, partName } from './offer-groups.ts';

export function WhatBlock({ draft, known, change }: BlockProps) {
  const { launch } = useTexts();
  const { offer, image } = draft;
  const hasRegions = new Set(known.offers.map(({ regionId }) => regionId)).size > 1;
  const groups = groupsOf(known.offers);
  const hasCards = groups.some(({ card }) => card !== '');
  const nearest = offer.isInStock ? undefined : nearestTo(offer, known.offers);
  return (
    <Stack gap="sm">
      <Title order={2}>{launch.what}</Title>
      <NativeSelect
        label={launch.image}
        maw={420}
        value={image.imageId}
        onChange={({ currentTarget }) => change({ imageId: currentTarget.value })}
        data={known.images.map(({ imageId, name, state }) => ({
          value: imageId,
          label: state === 'Ready' ? name : `${name} · ${launch.imageStates(state)}`,
        }))}
        description={image.stateText === '' ? undefined : image.stateText}
      />
      <div>
        <ImageFacts image={image} />
      </div>
      <Switch
        label={launch.imageCommand}
        description={hasCommand(image) ? launch.imageCommandHint : launch.noImageCommand}
        disabled={!hasCommand(image) && !draft.imageCommand}
        checked={draft.imageCommand}
        onChange={({ currentTarget }) => change({ imageCommand: currentTarget.checked })}
      />
      {draft.isOtherImage && <Note>{launch.otherImage(image.name)}</Note>}
      {draft.isOtherOffer && <Note>{launch.otherType(offer.typeName)}</Note>}
      <Radio.Group label={launch.type} value={offer.key} onChange={(key) => change({ offer: key })}>
        {groups.map(({ card, offers }) => (
          <div key={card} role="group" aria-label={card === '' ? launch.withoutGpus : card}>
            {hasCards && (
              <Text size="sm" fw={600} mt="xs">
                {card === '' ? launch.withoutGpus : card}
              </Text>
            )}
            <div className={classes.offers}>
              {offers.map((one) => (
                <OfferCard key={one.key} offer={one} hasRegions={hasRegions} />
              ))}
            </div>
          </div>
        ))}
      </Radio.Group>
      {!offer.isInStock && (
        <Note>
          {launch.outOfStock(offer.typeName)}
          {nearest && (
            <Anchor
              component="button"
              type="button"
              size="sm"
              display="block"
              onClick={() => change({ offer: nearest.key })}
            >
              {launch.takeInstead(nearest.typeName)}
            </Anchor>
          )}
        </Note>
      )}
    </Stack>
  );
}

/** True while that is not known. */
const hasCommand = ({ details }: Image): boolean =>
  details === null || details.entrypoint.length + details.command.length > 0;

function OfferCard({ offer, hasRegions }: { offer: Offer; hasRegions: boolean }) {
  const { launch, common } = useTexts();
  const { money } = useFormat();
  const price = priceOf(offer, 'perHour');
  const gpuPrice = gpuPriceOf(offer);
  const size = [
    offer.gpus === 0 ? '' : launch.gpus[offer.gpuSlice ?? 'whole'](offer.gpus, partName(offer)),
    offer.gpuMemoryGB === undefined ? '' : launch.gpuMemory(common.gb(offer.gpuMemoryGB)),
    launch.cores(offer.cpuCores),
    common.gb(offer.memoryGB),
    hasRegions ? offer.regionName : '',
    offer.isSpot ? launch.spot : '',
  ].filter((part) => part !== '');
  return (
    <Radio.Card value={offer.key} p="xs" className={classes.offer}>
      <Group wrap="nowrap" align="flex-start" gap="xs">
        <Radio.Indicator size="xs" mt={3} />
        <div className={classes.grow}>
          <Group justify="space-between" wrap="nowrap" gap={4}>
            <Text size="sm" fw={600} truncate>
              {offer.typeName}
            </Text>
            <Text size="sm">{price === undefined ? '' : money(price)}</Text>
          </Group>
          <Text size="xs" c="dimmed">
            {size.join(' · ')}
          </Text>
          <Text size="xs" {...(offer.isInStock ? { c: 'dimmed' } : { className: classes.warning })}>
            {[
              launch.freeNow(offer.fitsNow),
              ...(gpuPrice === undefined ? [] : [launch.gpuHour(money(gpuPrice), offer.gpuSlice !== undefined)]),
            ].join(' · ')}
          </Text>
        </div>
      </Group>
    </Radio.Card>
  );
}
