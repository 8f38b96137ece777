/** Database encoding of spans: deflated JSON. Synchronous, to keep simulations deterministic. */
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { MetricsSpan, MetricsValues } from '../../../domain/metrics.ts';

type EncodedValues = (number | null)[];
type EncodedSamples = [id: string, ...[atMs: number, ...EncodedValues][]][];
type EncodedMinutes = [atMs: number, mean: EncodedValues, max: EncodedValues][];

export interface InstanceSamples {
  id: string;
  spans: readonly MetricsSpan[];
}

export const packSamples = (all: readonly InstanceSamples[]): Uint8Array =>
  pack(all.map(({ id, spans }) => [id, ...spans.map(({ atMs, mean }) => [atMs, ...mean])]));

export function unpackSamples(body: Uint8Array): InstanceSamples[] {
  const all: EncodedSamples = unpack(body);
  return all.map(([id, ...samples]) => ({
    id,
    spans: samples.map(([atMs, ...encoded]) => {
      const values = decodeValues(encoded);
      return { atMs, mean: values, max: values };
    }),
  }));
}

export const packMinutes = (spans: readonly MetricsSpan[]): Uint8Array =>
  pack(spans.map(({ atMs, mean, max }) => [atMs, mean, max]));

export function unpackMinutes(body: Uint8Array): MetricsSpan[] {
  const minutes: EncodedMinutes = unpack(body);
  return minutes.map(([atMs, mean, max]) => ({ atMs, mean: decodeValues(mean), max: decodeValues(max) }));
}

const decodeValues = (encoded: EncodedValues): MetricsValues => encoded.map((value) => value ?? Number.NaN);

const pack = (encoded: unknown): Uint8Array => deflateRawSync(JSON.stringify(encoded), { level: 1 });

const unpack = (body: Uint8Array) => JSON.parse(inflateRawSync(body).toString('utf8'));
