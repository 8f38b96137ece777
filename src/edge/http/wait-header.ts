/** How long a request says that it waits in line for room: `true`, or so many seconds. */
import { DEFAULT_WAIT_S, MAX_WAIT_S, WAIT_HEADER } from '../../contract/wait.ts';
import { Refusal } from '../../domain/refusal.ts';

const SECONDS = /^[1-9][0-9]{0,6}$/;

/** Null: the header is not there, and the request does not wait. */
export function waitMsOf(header: string | string[] | undefined): number | null {
  if (header === undefined) return null;
  const text = String(header);
  const seconds = text === 'true' ? DEFAULT_WAIT_S : SECONDS.test(text) ? Number(text) : Number.NaN;
  if (seconds <= MAX_WAIT_S) return seconds * 1000;
  throw new Refusal(
    'field_value',
    `the header "${WAIT_HEADER}" must be "true" (waits for at most ${DEFAULT_WAIT_S / 3_600} hours) or whole seconds from 1 to ${MAX_WAIT_S}`,
  );
}
