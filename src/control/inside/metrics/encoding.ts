/** Database encoding of spans: deflated JSON. Synchronous, to keep simulations deterministic. */
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { MetricsSpan, MetricsValues } from '../../../domain/metrics.ts';

/** Null encodes NaN. */
type Told = (number | null)[];
type TellsSamples = [id: string, ...[atMs: number, ...Told][]][];
type TellsMinutes = [atMs: number, mean: Told, max: Told][];

export interface InstanceSamples {
  id: string;
  spans: readonly MetricsSpan[];
}

export const packSamples = (all: readonly InstanceSamples[]): Uint8Array =>
  pack(all.map(({ id, spans }) => [id, ...spans.map(({ atMs, mean }) => [atMs, ...mean])]));

export function unpackSamples(body: Uint8Array): InstanceSamples[] {
  const all: TellsSamples = unpack(body);
  return all.map(([id, ...samples]) => ({
    id,
    spans: samples.map(([atMs, ...told]) => {
      const values = known(told);
      return { atMs, mean: values, max: values };
    }),
  }));
}

export const packMinutes = (spans: readonly MetricsSpan[]): Uint8Array =>
  pack(spans.map(({ atMs, mean, max }) => [atMs, mean, max]));

export function unpackMinutes(body: Uint8Array): MetricsSpan[] {
  const minutes: TellsMinutes = unpack(body);
  return minutes.map(([atMs, mean, max]) => ({ atMs, mean: known(mean), max: known(max) }));
}

const known = (told: Told): MetricsValues => told.map((value) => value ?? Number.NaN);

const pack = (told: unknown): Uint8Array => deflateRawSync(JSON.stringify(told), { level: 1 });

const unpack = (body: Uint8Array) => JSON.parse(inflateRawSync(body).toString('utf8'));
