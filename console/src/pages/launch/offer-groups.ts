/** Offers of a launch by their cards: whole ones, then their parts, types without GPUs last. */
import { priceOf, type Offer } from './draft.ts';

export interface OfferGroup {
  /** Model of the cards; empty: no GPUs. */
  card: string;
  offers: Offer[];
}

const kinds = [undefined, 'mig', 'shared'] as const;

export function groupsOf(offers: readonly Offer[]): OfferGroup[] {
  const byCard = Map.groupBy(offers, ({ gpus, gpuCard, gpuName }) => (gpus === 0 ? '' : (gpuCard ?? gpuName)));
  return [...byCard]
    .map(([card, ofCard]) => ({
      card,
      offers: kinds.flatMap((kind) => ofCard.filter(({ gpuSlice }) => gpuSlice === kind)),
    }))
    .sort((one, other) => Number(one.card === '') - Number(other.card === ''));
}

/** Of one GPU. */
export function gpuPriceOf(offer: Offer): number | undefined {
  const price = priceOf(offer, 'perHour');
  return price === undefined || offer.gpus === 0 ? undefined : price / offer.gpus;
}

/** `MIG 3g.20gb` of an `A100 MIG 3g.20gb`. */
export const partName = ({ gpuName, gpuCard }: Offer): string =>
  gpuCard !== undefined && gpuName.startsWith(`${gpuCard} `) ? gpuName.slice(gpuCard.length + 1) : gpuName;
