/**
 * Sends an act once, however often its button is pressed. The same request right after itself has
 * the same answer; after a lost answer it has the same key, by which the API knows it. Any other
 * act in between makes it a new one.
 */
const KEY = 'idempotency-key';
/** Time after the answer in which a second press of the same button still is a double click. */
const DOUBLE_CLICK_MS = 600;

interface Sent {
  what: string;
  key: string;
  answer: Promise<Response>;
  /** Undefined: the answer has not come. */
  answeredAtMs?: number;
  isLost: boolean;
}

type Send = (url: string, init: RequestInit) => Promise<Response>;

export function makeSendOnce(send: Send, now: () => number): Send {
  let last: Sent | undefined;
  return async (url, init) => {
    const headers = new Headers(init.headers);
    const freshKey = headers.get(KEY);
    if (freshKey === null || typeof init.body !== 'string') return send(url, init);
    const what = `${url} ${init.body}`;
    const before = last?.what === what ? last : undefined;
    if (before !== undefined && !before.isLost && now() < (before.answeredAtMs ?? Infinity) + DOUBLE_CLICK_MS)
      return (await before.answer).clone();
    const key = before?.isLost ? before.key : freshKey;
    headers.set(KEY, key);
    const sent: Sent = { what, key, answer: send(url, { ...init, headers }), isLost: false };
    last = sent;
    try {
      const response = await sent.answer;
      // A refusal may pass: its next try is a new one.
      sent.isLost = response.status >= 500;
      sent.answeredAtMs = response.ok ? now() : -Infinity;
      return response.clone();
    } catch (error) {
      sent.isLost = true;
      throw error;
    }
  };
}
