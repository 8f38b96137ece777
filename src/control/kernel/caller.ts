import type { KeyLimits } from '../../domain/access/api-key.ts';
import type { Scope } from '../../domain/access/scopes.ts';

/** Caller of every use case, from `access.authenticate`. */

export interface Caller {
  accountId: string;
  username: string;
  email: string;
  roles: readonly string[];
  sessionId: string | null;
  /** Null: no limits. */
  scopes: readonly Scope[] | null;
  /** Absent for a token. Deleting the key ends what was opened with it. */
  apiKeyId?: string;
  /** Absent for a token, and for a key of unlimited time and addresses. */
  limits?: KeyLimits;
  /** The role asks for a second factor, and the login had none: only setting one up is allowed. */
  mustSetUpFactor?: true;
}

export type Credential = { kind: 'token'; token: string } | { kind: 'apiKey'; key: string };

/** An `Idempotency-Key`, its route, and the hash of the validated body. */
export interface Idempotency {
  key: string;
  route: string;
  bodyHash: string;
}

/** A use case that writes, once for each idempotency key. */
export type Mutation<Body, Answer> = (caller: Caller, body: Body, idempotency: Idempotency | null) => Promise<Answer>;

/** Identifies the new operation in a header; `docs/interface.md` fixes the body. */
export interface StartedOperation {
  operationId: string;
}

/** A write whose work a reconciler does. */
export type LongRunning<Body, Answer> = Mutation<Body, Answer & StartedOperation>;

export interface Pager {
  currentPage: number;
  pageSize: number;
}

/**
 * A page of public objects as stored JSON texts, joined without serialization. A piece is one text
 * or several joined by commas.
 */
export interface TextPage<Text extends string | Uint8Array = string | Uint8Array> {
  texts: Text[];
  totalEntries: number;
}
