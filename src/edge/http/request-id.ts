/** `X-Request-Id`: the client's own where it is fit for a log line, else made here. */
import { randomBytes } from 'node:crypto';

const SANE = /^[A-Za-z0-9._~-]{1,100}$/;

/** Ids of one process count up behind a random start: cheap, and unlike those of any other process. */
export function makeRequestIds(): (header: string | string[] | undefined) => string {
  const start = randomBytes(6).toString('hex');
  let count = 0;
  return (header) => {
    if (typeof header === 'string' && SANE.test(header)) return header;
    count += 1;
    return `${start}-${count.toString(36)}`;
  };
}
