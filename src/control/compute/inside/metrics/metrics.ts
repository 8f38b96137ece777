import {
  foldIntoSteps,
  type MetricsRange,
  type MetricsSpan,
  hasSampleResolution,
  resolveMetricsRange,
  type MetricsRangeRequest,
} from '../../../../domain/compute/metrics.ts';
import { gpuCountOf } from '../../../../domain/regions/catalog.ts';
import { Refusal } from '../../../../domain/kernel/refusal.ts';
import type { Usage } from '../../../../engines/contract.ts';
import { requireOwned } from '../require-instance.ts';
import type { Sampler } from './sampler.ts';
import type { Caller, WriteDeps } from '../../../kernel/ports.ts';

export interface InstanceMetrics extends MetricsRange {
  gpuCount: number;
  cpuLimitMilli: number;
  steps: (MetricsSpan | null)[];
  now: { atMs: number; usage: Usage; span: MetricsSpan } | null;
}

/** Throws `field_value` for times beyond the retention. */
export interface Metrics {
  read(caller: Caller, instanceId: string, request: MetricsRangeRequest): Promise<InstanceMetrics>;
}

type MetricsDeps = Pick<WriteDeps, 'store' | 'time'> & { sampler: Sampler };

export function makeMetrics({ store, time, sampler }: MetricsDeps): Metrics {
  return {
    async read(caller, instanceId, request) {
      const { observed, spec } = await requireOwned(store, caller, instanceId);
      const nowMs = time.now();
      const range = resolveMetricsRange(request, nowMs);
      if (typeof range === 'string') throw new Refusal('field_value', range);
      const spans = hasSampleResolution(range, nowMs)
        ? sampler.samplesOf(instanceId)
        : await sampler.minutesOf(instanceId, range.fromMs);
      return {
        ...range,
        gpuCount: gpuCountOf(spec),
        cpuLimitMilli: Math.round(spec.type.cpuCores * 1000),
        steps: foldIntoSteps(spans, range),
        now: observed.status === 'Running' ? sampler.latestOf(instanceId) : null,
      };
    },
  };
}
