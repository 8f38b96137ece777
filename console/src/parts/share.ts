/** Used part of a limit, 0 to 1. A limit of 0 that is used is full. */
export const shareOf = (used: number, limit: number): number =>
  limit <= 0 ? (used > 0 ? 1 : 0) : Math.min(1, Math.max(0, used / limit));
