/**
 * Limits the memory of request bodies that are being read: of each account, and of all requests
 * without a login together. Above the limit the body that began first is dropped, so that a body
 * that comes at once is always read.
 */
const UNAUTHENTICATED_BYTES = 32 * 1024 * 1024;
const ACCOUNT_BYTES = 16 * 1024 * 1024;

export interface OpenBody {
  /** Null: a request without a login. */
  accountId: string | null;
  /** Called once at most, after its bytes are released. */
  drop(): void;
}

export interface BodyBudget {
  /** Counts more bytes of a body. May drop it. */
  add(body: OpenBody, bytes: number): void;
  release(body: OpenBody): void;
}

interface Share {
  bytes: number;
  /** In the order of their beginning. */
  bodies: Map<OpenBody, number>;
}

export function makeBodyBudget(): BodyBudget {
  const shares = new Map<string | null, Share>();
  const release = (body: OpenBody): void => {
    const share = shares.get(body.accountId);
    const bytes = share?.bodies.get(body);
    if (share === undefined || bytes === undefined) return;
    share.bytes -= bytes;
    share.bodies.delete(body);
    if (share.bodies.size === 0) shares.delete(body.accountId);
  };
  return {
    release,
    add(body, bytes) {
      const { accountId } = body;
      const share = shares.get(accountId) ?? { bytes: 0, bodies: new Map<OpenBody, number>() };
      shares.set(accountId, share);
      share.bytes += bytes;
      share.bodies.set(body, (share.bodies.get(body) ?? 0) + bytes);
      for (const oldest of share.bodies.keys()) {
        if (share.bytes <= (accountId === null ? UNAUTHENTICATED_BYTES : ACCOUNT_BYTES)) return;
        release(oldest);
        oldest.drop();
      }
    },
  };
}
