/** Who asks. Comes from `access.authenticate` and is handed to every use-case. */
export interface Caller {
  accountId: string;
  username: string;
  email: string;
  roles: readonly string[];
  /** Login the token came from; null for an API key. */
  sessionId: string | null;
  /** The API key's id; absent for a token. What is opened with a key ends with it. */
  apiKeyId?: string;
}

export type Credential = { kind: 'token'; token: string } | { kind: 'apiKey'; key: string };

/** An `Idempotency-Key` with the route and the hash of the validated body it stands for. */
export interface Idempotency {
  key: string;
  route: string;
  bodyHash: string;
}

export interface Pager {
  currentPage: number;
  pageSize: number;
}

/**
 * A page of public objects as their kept JSON texts: a list is joined, never serialised anew. A piece is one text or several that the store
 * has joined by commas, as a string or as its UTF-8 bytes.
 */
export interface TextPage<Text extends string | Uint8Array = string | Uint8Array> {
  texts: Text[];
  totalEntries: number;
}

/** The id of the operation that a wish began: it goes out in a header, beside the body that the interface fixes. */
export interface StartedOperation {
  /** Absent only in answers to keyed requests that a version before operations has kept. */
  operationId?: string;
}
