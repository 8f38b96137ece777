/**
 * # Client of a cluster
 *
 * Typed verbs over one connection and one namespace. Every verb throws an `ApiError`
 * (`api-error.ts`) or the reason of its signal. Lists are truth: they are read from the server,
 * in pages, and start again when their version expires. Watches are hints (`cluster-watch.ts`).
 */
import type { Duplex, Readable } from 'node:stream';
import { ApiError, isFailure } from './api-error.ts';
import type { ApiObject, Page } from './api-objects.ts';
import { send, sendForJson, type ApiRequest, type QueryValues } from './api-request.ts';
import { pathOf, type Resource } from './api-resources.ts';
import { makeWatches, type Watches } from './cluster-watch.ts';
import { connectCluster, type ClusterConnection, type ClusterCredentials } from './cluster-connection.ts';
import { openPodExec, type PodExec, type PodExecRequest } from './pod-exec.ts';
import { openPortForward } from './port-forward.ts';

/** Owner of the fields that Berth sets by server-side apply. */
export const FIELD_MANAGER = 'berth';
const PAGE = 500;
const MAX_RELISTS = 3;

export interface ListOptions {
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
}

export interface RemoveOptions {
  /** Removes only this object: `conflict` otherwise. */
  uid?: string | undefined;
  graceSeconds?: number | undefined;
}

export interface Cluster {
  readonly namespace: string;
  /** Null: absent. */
  get<T extends ApiObject>(resource: Resource<T>, name: string, signal: AbortSignal): Promise<T | null>;
  list<T extends ApiObject>(resource: Resource<T>, signal: AbortSignal, options?: ListOptions): Promise<T[]>;
  /** Failure `exists`: an object has the name. `dryRun`: only asks whether the server would. */
  create<T extends ApiObject>(
    resource: Resource<T>,
    object: T,
    signal: AbortSignal,
    options?: { dryRun: boolean },
  ): Promise<T>;
  /**
   * Server-side apply: sets the fields of `object` and removes those that Berth set before. With
   * `uid` or `resourceVersion` in the metadata the object must still be that one: `conflict`.
   */
  apply<T extends ApiObject>(resource: Resource<T>, object: T, signal: AbortSignal): Promise<T>;
  /** JSON merge patch; null removes a member. Failure `absent`. */
  patch<T extends ApiObject>(
    resource: Resource<T>,
    name: string,
    changes: object,
    signal: AbortSignal,
    subresource?: string,
  ): Promise<T>;
  /** False: absent. A finalizer or a grace period may keep the object for a while. */
  remove(resource: Resource<ApiObject>, name: string, signal: AbortSignal, options?: RemoveOptions): Promise<boolean>;
  /** Calls `onHint` on possible changes until the signal. One watch serves all callers. */
  watch: Watches['subscribe'];
  /** Any other path, parsed as JSON. */
  json(path: string, signal: AbortSignal, query?: QueryValues): Promise<object>;
  /** Body of a GET as it arrives, such as a log. The signal destroys it. */
  stream(path: string, signal: AbortSignal, query?: QueryValues): Promise<Readable>;
  exec(pod: string, request: PodExecRequest, signal: AbortSignal): Promise<PodExec>;
  /** Connects to a port of a Pod through the API server. */
  portForward(pod: string, port: number, signal: AbortSignal): Promise<Duplex>;
  pathOf(resource: Resource<ApiObject>, ...rest: string[]): string;
  /** Ends watches and open streams. */
  stop(): void;
}

export interface ClusterOptions {
  credentials: ClusterCredentials;
  namespace: string;
}

export async function openCluster({ credentials, namespace }: ClusterOptions): Promise<Cluster> {
  return makeCluster(await connectCluster(credentials), namespace);
}

export function makeCluster(connection: ClusterConnection, namespace: string): Cluster {
  const stopping = new AbortController();
  const until = (signal: AbortSignal): AbortSignal => AbortSignal.any([signal, stopping.signal]);
  const within = (resource: Resource<ApiObject>, ...rest: string[]): string => pathOf(resource, namespace, ...rest);

  const call = <T extends ApiObject | Page<ApiObject>>(request: ApiRequest): Promise<T> =>
    sendForJson<T>(connection, { ...request, signal: until(request.signal) });

  async function listAll<T extends ApiObject>(
    resource: Resource<T>,
    signal: AbortSignal,
    { labelSelector, fieldSelector }: ListOptions,
  ): Promise<T[]> {
    const items: T[] = [];
    let token: string | undefined;
    do {
      const query = { limit: PAGE, labelSelector, fieldSelector, continue: token };
      const page = await call<Page<T>>({ method: 'GET', path: within(resource), query, signal });
      const { items: next = [], metadata } = page;
      items.push(...next);
      token = metadata?.continue === '' ? undefined : metadata?.continue;
    } while (token !== undefined);
    return items;
  }

  const watches = makeWatches({ connection, namespace, signal: stopping.signal });

  return {
    namespace,
    pathOf: within,
    async get<T extends ApiObject>(resource: Resource<T>, name: string, signal: AbortSignal) {
      try {
        return await call<T>({ method: 'GET', path: within(resource, name), signal });
      } catch (error) {
        if (isFailure(error, 'absent')) return null;
        throw error;
      }
    },
    async list<T extends ApiObject>(resource: Resource<T>, signal: AbortSignal, options: ListOptions = {}) {
      for (let relists = 0; ; relists++) {
        try {
          return await listAll<T>(resource, signal, options);
        } catch (error) {
          if (!isFailure(error, 'expired') || relists === MAX_RELISTS) throw error;
        }
      }
    },
    create: (resource, object, signal, { dryRun } = { dryRun: false }) =>
      call({
        method: 'POST',
        path: within(resource),
        query: { fieldManager: FIELD_MANAGER, dryRun: dryRun ? 'All' : undefined },
        body: { apiVersion: resource.apiVersion, kind: resource.kind, ...object },
        signal,
      }),
    apply: (resource, object, signal) =>
      call({
        method: 'PATCH',
        path: within(resource, object.metadata?.name ?? ''),
        query: { fieldManager: FIELD_MANAGER, force: true },
        body: { apiVersion: resource.apiVersion, kind: resource.kind, ...object },
        contentType: 'application/apply-patch+yaml',
        signal,
      }),
    patch: (resource, name, changes, signal, subresource) =>
      call({
        method: 'PATCH',
        path: within(resource, name, ...(subresource === undefined ? [] : [subresource])),
        query: { fieldManager: FIELD_MANAGER },
        body: changes,
        contentType: 'application/merge-patch+json',
        signal,
      }),
    async remove(resource, name, signal, { uid, graceSeconds } = {}) {
      const body = {
        apiVersion: 'v1',
        kind: 'DeleteOptions',
        propagationPolicy: 'Background',
        gracePeriodSeconds: graceSeconds,
        preconditions: { uid },
      };
      try {
        await call({ method: 'DELETE', path: within(resource, name), body, signal });
        return true;
      } catch (error) {
        if (isFailure(error, 'absent')) return false;
        throw error;
      }
    },
    watch: watches.subscribe,
    json: (path, signal, query) => call({ method: 'GET', path, query, signal }),
    stream: (path, signal, query) =>
      send(connection, { method: 'GET', path, query, accept: '*/*', signal: until(signal) }),
    exec: (pod, request, signal) =>
      openPodExec({ connection, namespace, stopping: stopping.signal }, pod, request, signal),
    portForward: (pod, port, signal) =>
      openPortForward({ connection, namespace, stopping: stopping.signal }, pod, port, signal),
    stop() {
      stopping.abort(new ApiError('away', 'the client of the cluster was closed'));
      connection.stop();
    },
  };
}
