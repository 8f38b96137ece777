/**
 * # Watches
 *
 * One watch for each kind and selector, shared by all callers. It lists, reports what differs from
 * before, follows from the version of the list, and lists again when that version has expired
 * (410). A watch that ends is followed on from its last version. Hints may be late, doubled or
 * lost: callers read the object that a hint names.
 */
import { createInterface } from 'node:readline';
import { retry } from '../async/retry.ts';
import { onAbort } from '../async/abort.ts';
import { errorOfConnection, errorOfStatus, isFailure } from './api-error.ts';
import { isWire, type ApiObject, type ObjectMeta, type Page, type WatchEvent } from './api-objects.ts';
import { send, sendForJson } from './api-request.ts';
import { pathOf, type Resource } from './api-resources.ts';
import type { ClusterConnection } from './cluster-connection.ts';

export interface Hint<T extends ApiObject> {
  /** State after the change; of an object that a list misses the metadata alone. */
  object: T;
  isGone: boolean;
}

export interface Subscriber<T extends ApiObject> {
  onHint: (hint: Hint<T>) => void;
  /** Connection loss or refusal; the watch goes on with a back-off. */
  onTrouble?: (error: unknown) => void;
}

export interface Subscription {
  /** Resolves once every later change will be reported. */
  live: Promise<void>;
  /** Monotonic milliseconds of the last sign of life; -Infinity while not connected. */
  heardMs(): number;
}

/** The server ends a watch after this time, at random up to twice as long, to spread reconnects. */
const WATCH_SECONDS = 240;
const FIRST_PAUSE_MS = 200;
const MAX_PAUSE_MS = 30_000;
const PAGE = 500;

export interface WatchesOptions {
  connection: ClusterConnection;
  namespace: string;
  signal: AbortSignal;
}

export interface Watches {
  subscribe<T extends ApiObject>(
    resource: Resource<T>,
    labelSelector: string,
    subscriber: Subscriber<T>,
    signal: AbortSignal,
  ): Subscription;
}

export function makeWatches(options: WatchesOptions): Watches {
  const shared = new Map<string, SharedWatch>();
  return {
    subscribe<T extends ApiObject>(
      resource: Resource<T>,
      labelSelector: string,
      subscriber: Subscriber<T>,
      signal: AbortSignal,
    ) {
      const key = `${resource.apiVersion}/${resource.plural}?${labelSelector}`;
      const watch = shared.get(key) ?? new SharedWatch(options, resource, labelSelector, () => shared.delete(key));
      shared.set(key, watch);
      watch.add(
        {
          onHint({ object, isGone }) {
            if (isWire<T>(object)) subscriber.onHint({ object, isGone });
          },
          onTrouble: (error) => subscriber.onTrouble?.(error),
        },
        signal,
      );
      return { live: watch.live.promise, heardMs: () => watch.heardMs };
    },
  };
}

class SharedWatch {
  readonly live = Promise.withResolvers<void>();
  heardMs = -Infinity;
  readonly #options: WatchesOptions;
  readonly #path: string;
  readonly #labelSelector: string;
  readonly #subscribers = new Set<Subscriber<ApiObject>>();
  readonly #ending = new AbortController();
  readonly #onEnd: () => void;
  /** Metadata of each present object, by name. */
  #known = new Map<string, ObjectMeta>();
  /** Version to follow from; null: list first. */
  #from: string | null = null;

  constructor(options: WatchesOptions, resource: Resource<ApiObject>, labelSelector: string, onEnd: () => void) {
    this.#options = { ...options, signal: AbortSignal.any([options.signal, this.#ending.signal]) };
    this.#path = pathOf(resource, options.namespace);
    this.#labelSelector = labelSelector;
    this.#onEnd = onEnd;
    void this.#run();
  }

  add(subscriber: Subscriber<ApiObject>, signal: AbortSignal): void {
    this.#subscribers.add(subscriber);
    onAbort(signal, () => {
      this.#subscribers.delete(subscriber);
      if (this.#subscribers.size > 0 || this.#ending.signal.aborted) return;
      this.#onEnd();
      this.#ending.abort();
    });
  }

  #publish(hint: Hint<ApiObject>): void {
    for (const { onHint } of this.#subscribers) onHint(hint);
  }

  async #run(): Promise<void> {
    const { signal } = this.#options;
    const onError = (error: unknown): void => {
      this.heardMs = -Infinity;
      for (const { onTrouble } of this.#subscribers) onTrouble?.(error);
    };
    const pauses = { firstMs: FIRST_PAUSE_MS, maxMs: MAX_PAUSE_MS, jitter: 0.5 };
    await retry(
      async (reset) => {
        while (!signal.aborted) await this.#round(reset);
      },
      { signal, ...pauses, onError },
    );
    this.heardMs = -Infinity;
    this.live.resolve();
  }

  async #round(reset: () => void): Promise<void> {
    try {
      this.#from ??= await this.#list();
      this.live.resolve();
      await this.#follow(this.#from, reset);
    } catch (error) {
      if (!isFailure(error, 'expired')) throw error;
      this.#from = null;
    }
  }

  async #list(): Promise<string> {
    const { connection, signal } = this.#options;
    const before = this.#known;
    const present = new Map<string, ObjectMeta>();
    const changed: ApiObject[] = [];
    let token: string | undefined;
    let version = '';
    do {
      const query = { labelSelector: this.#labelSelector, limit: PAGE, continue: token };
      const request = { method: 'GET' as const, path: this.#path, query, signal };
      const { items = [], metadata } = await sendForJson<Page<ApiObject>>(connection, request);
      for (const object of items) {
        const name = object.metadata?.name;
        if (name === undefined || object.metadata === undefined) continue;
        present.set(name, retainedOf(object.metadata));
        if (before.get(name)?.resourceVersion !== object.metadata.resourceVersion) changed.push(object);
      }
      token = metadata?.continue === '' ? undefined : metadata?.continue;
      version = metadata?.resourceVersion ?? version;
    } while (token !== undefined);
    this.#known = present;
    for (const object of changed) this.#publish({ object, isGone: false });
    for (const [name, metadata] of before)
      if (!present.has(name)) this.#publish({ object: { metadata }, isGone: true });
    return version;
  }

  async #follow(from: string, reset: () => void): Promise<void> {
    const { connection, signal } = this.#options;
    const query = {
      watch: true,
      allowWatchBookmarks: true,
      resourceVersion: from,
      labelSelector: this.#labelSelector,
      timeoutSeconds: Math.round(WATCH_SECONDS * (1 + Math.random())),
    };
    const body = await send(connection, { method: 'GET', path: this.#path, query, signal });
    body.socket.setKeepAlive(true, 30_000);
    this.heardMs = performance.now();
    reset();
    try {
      for await (const line of createInterface({ input: body, crlfDelay: Infinity })) this.#take(line);
      if (!body.complete) throw new Error('the watch was cut');
    } catch (error) {
      signal.throwIfAborted();
      throw errorOfConnection(error, connection.server.host);
    } finally {
      body.destroy();
    }
  }

  #take(line: string): void {
    if (line.trim() === '') return;
    const event: unknown = JSON.parse(line);
    if (!isWire<WatchEvent>(event)) return;
    const { type, object } = event;
    if (type === 'ERROR') throw errorOfStatus(object, `watch of ${this.#path}`);
    this.heardMs = performance.now();
    const { metadata } = object;
    if (metadata?.resourceVersion !== undefined) this.#from = metadata.resourceVersion;
    if (type === 'BOOKMARK' || metadata?.name === undefined) return;
    const isGone = type === 'DELETED';
    if (isGone) this.#known.delete(metadata.name);
    else this.#known.set(metadata.name, retainedOf(metadata));
    this.#publish({ object, isGone });
  }
}

/** Members that a hint of a later list needs; the rest of the object is not retained. */
const retainedOf = ({ name, labels, uid, resourceVersion }: ObjectMeta): ObjectMeta => ({
  ...(name === undefined ? {} : { name }),
  ...(labels === undefined ? {} : { labels }),
  ...(uid === undefined ? {} : { uid }),
  ...(resourceVersion === undefined ? {} : { resourceVersion }),
});
