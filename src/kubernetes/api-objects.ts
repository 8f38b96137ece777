/** Objects as they cross the wire: times are strings, and every member has its JSON name. */
import type {
  CoreV1Event,
  V1Device,
  V1DeviceClass,
  V1Namespace,
  V1NetworkPolicy,
  V1Node,
  V1ObjectMeta,
  V1PersistentVolume,
  V1PersistentVolumeClaim,
  V1Pod,
  V1PodDisruptionBudget,
  V1ResourceClaimTemplate,
  V1ResourceQuota,
  V1ResourceSlice,
  V1Secret,
  V1SelfSubjectRulesReview,
  V1Service,
  V1StatefulSet,
  V1Status,
  V1StorageClass,
} from '@kubernetes/client-node';

type JsonName<Name> = Name extends `_${infer Rest}` ? Rest : Name;

/** The client library names some members and types unlike the JSON that the server sends. */
export type Wire<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? Wire<Item>[]
    : T extends object
      ? { [Name in keyof T as JsonName<Name>]: Wire<T[Name]> }
      : T;

export type ObjectMeta = Wire<V1ObjectMeta>;
export type Status = Wire<V1Status>;

/** Every object of the API. */
export interface ApiObject {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
}

export type Pod = Wire<V1Pod>;
export type StatefulSet = Wire<V1StatefulSet>;
export type Service = Wire<V1Service>;
export type Secret = Wire<V1Secret>;
export type Namespace = Wire<V1Namespace>;
export type Node = Wire<V1Node>;
export type NetworkPolicy = Wire<V1NetworkPolicy>;
export type DisruptionBudget = Wire<V1PodDisruptionBudget>;
export type ClusterEvent = Wire<CoreV1Event>;
export type ResourceQuota = Wire<V1ResourceQuota>;
export type Device = Wire<V1Device>;
export type DeviceClass = Wire<V1DeviceClass>;
export type ResourceSlice = Wire<V1ResourceSlice>;
export type ResourceClaimTemplate = Wire<V1ResourceClaimTemplate>;
export type PersistentVolume = Wire<V1PersistentVolume>;
export type PersistentVolumeClaim = Wire<V1PersistentVolumeClaim>;
export type StorageClass = Wire<V1StorageClass>;
export type RulesReview = Wire<V1SelfSubjectRulesReview>;

/** Custom resource of the snapshot controller. */
export interface VolumeSnapshot extends ApiObject {
  spec: { volumeSnapshotClassName?: string; source: { persistentVolumeClaimName?: string } };
  status?: {
    readyToUse?: boolean;
    restoreSize?: string;
    creationTime?: string;
    error?: { message?: string; time?: string };
  };
}

export interface VolumeSnapshotClass extends ApiObject {
  driver: string;
  deletionPolicy: string;
}

/** A page of a list. Its items have neither `apiVersion` nor `kind`. */
export interface Page<T extends ApiObject> {
  metadata?: { resourceVersion?: string; continue?: string };
  items?: T[];
}

export interface WatchEvent {
  type: string;
  object: ApiObject;
}

/** Trusts the schema of the server, as its version promises it. */
export const isWire = <T extends ApiObject | Page<ApiObject> | WatchEvent>(value: unknown): value is T =>
  typeof value === 'object' && value !== null;

/** Answer of the metrics API. */
export interface PodMetrics extends ApiObject {
  timestamp: string;
  window: string;
  containers: { name: string; usage: { cpu: string; memory: string } }[];
}
