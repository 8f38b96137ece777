/**
 * Change feed, published to after commits. Reconcile loops, route cache, route table and
 * revocations subscribe. A missed change only delays: subscribers also read the store on a
 * schedule.
 */
import type { SubjectKind } from '../../domain/compute/operation.ts';

export type Subject = SubjectKind | 'account';

export interface Change {
  /** `account`: its logins or API keys; what lists show of an account has a version of its own. */
  subject: Subject;
  id?: string;
  /** Rows of the subject were made due, so its reconcile loop claims at once. */
  isDue?: boolean;
}

export interface Changes {
  /** Call after the commit. Listeners run synchronously, in the order they subscribed. */
  publish(change: Change): void;
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
