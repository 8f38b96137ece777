/** Parts of a Pod's status and events. Pure. */
import type { ClusterEvent, Pod } from '../../../kubernetes/api-objects.ts';
import { MAIN_CONTAINER } from '../manifests/object-names.ts';

export type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number];

export const mainStatusOf = (pod: Pod | null): ContainerStatus | undefined =>
  pod?.status?.containerStatuses?.find(({ name }) => name === MAIN_CONTAINER);

/** 0 for no time, which the cluster gives a container that could not start. */
export const timeOf = (time: string | undefined): number => Math.max(0, Date.parse(time ?? '') || 0);

/** Last time of an event of a Pod, which its source may repeat. */
export const lastMsOf = ({ lastTimestamp, eventTime, series }: ClusterEvent): number =>
  timeOf(lastTimestamp ?? series?.lastObservedTime ?? eventTime);

/**
 * Whether the container that the Pod was made for has ended. The cluster then starts it again, and
 * nothing that the instance can write tells what runs there: it is never the run.
 */
export const hasEnded = (status: ContainerStatus | undefined): boolean =>
  status !== undefined &&
  (status.restartCount > 0 || (status.state?.terminated ?? status.lastState?.terminated) !== undefined);
