/** GPU time of an account, held and busy, by spans of a time zone. */
import type { GpuTime } from '../../domain/compute/gpu-time.ts';
import type { TimeSpan } from '../../domain/money/usage-buckets.ts';
import { gpuUseIn } from '../../store/tables/gpu-use.ts';
import { spansOf, type SpansRequest } from './usage-report.ts';
import type { Caller, UseCaseDeps } from '../kernel/ports.ts';

export interface GpuUse {
  read(caller: Caller, request: SpansRequest): Promise<(TimeSpan & GpuTime)[]>;
}

const none: GpuTime = { heldMs: 0, measuredMs: 0, busyMs: 0 };

export const makeGpuUse = ({ store }: Pick<UseCaseDeps, 'store'>): GpuUse => ({
  async read({ accountId }, request) {
    const spans = spansOf(request);
    const use = await gpuUseIn(store.read, accountId, spans);
    return spans.map((span) => ({ ...span, ...(use.get(span.fromMs) ?? none) }));
  },
});
