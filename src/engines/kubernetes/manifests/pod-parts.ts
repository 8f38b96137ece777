/** Types of the parts of a Pod. */
import type { Pod, StatefulSet } from '../../../kubernetes/api-objects.ts';

export type PodTemplate = NonNullable<StatefulSet['spec']>['template'];
export type PodSpec = NonNullable<Pod['spec']>;
export type Container = PodSpec['containers'][number];
export type Volume = NonNullable<PodSpec['volumes']>[number];
export type VolumeMount = NonNullable<Container['volumeMounts']>[number];
