/**
 * Change feed: what commits a change publishes it here after the commit. Reconcile loops, the route cache, the route table and
 * revocations subscribe. A missed change costs only time: each subscriber also reads the store on a schedule of its own.
 */
export type Subject = 'instance' | 'volume' | 'snapshot' | 'image' | 'account';

export interface Change {
  /** `account`: its logins or API keys; what lists show of an account has a version of its own. */
  subject: Subject;
  /** Absent when several objects changed. */
  id?: string;
  /** Rows of the subject were made due, so its reconcile loop claims at once. */
  isDue?: boolean;
}

export interface Changes {
  /** Call after the commit. Listeners run synchronously, in the order they subscribed. */
  publish(change: Change): void;
  /** Returns the unsubscribe function. */
  subscribe(subject: Subject, listener: (change: Change) => void): () => void;
}

export type PublishChanges = Pick<Changes, 'publish'>;

export function makeChanges(): Changes {
  const listeners = new Map<Subject, Set<(change: Change) => void>>();
  return {
    publish(change) {
      for (const listener of listeners.get(change.subject) ?? []) listener(change);
    },
    subscribe(subject, listener) {
      const ofSubject = listeners.get(subject) ?? new Set();
      listeners.set(subject, ofSubject.add(listener));
      return () => void ofSubject.delete(listener);
    },
  };
}
