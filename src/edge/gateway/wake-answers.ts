/** Answers for stopped instances that a request may start. */
import type { WakeOffer } from '../../control/index.ts';
import type { Refusal } from '../../domain/kernel/refusal.ts';
import type { Answer } from './answers.ts';
import { returnTarget } from './login-link.ts';
import type { InstanceTarget } from './routing.ts';

/** Path of the button of a stopped instance, on every host of the gateway. */
export const WAKE_PATH = '/.berth/wake';

const UNAVAILABLE = { status: 503, code: 'unavailable' } as const;

function costAndTime({ dollarsPerHour, expectedMs }: WakeOffer): string[] {
  const time =
    expectedMs === null
      ? 'the start takes seconds, or longer while the image is pulled'
      : `its last start took ${Math.ceil(expectedMs / 1_000)} s`;
  return dollarsPerHour === null ? [time] : [`it costs $${dollarsPerHour} an hour while it runs`, time];
}

/** `path`: what opens once it runs. */
export const wakeOffered = (offer: WakeOffer, path: string): Answer => ({
  ...UNAVAILABLE,
  title: 'The instance is stopped',
  message: 'you can start the instance here',
  help: costAndTime(offer),
  form: { action: `${WAKE_PATH}?to=${encodeURIComponent(path)}`, text: 'Start the instance' },
});

/** Parses what the button of a page opens; null: no instance. */
export const targetOfButton = (host: string, url: string, portDomain: string | null): InstanceTarget | null =>
  returnTarget(host, new URLSearchParams(url.slice(WAKE_PATH.length + 1)).get('to') ?? '', portDomain);

export const wakingUp = (offer: WakeOffer): Answer => ({
  ...UNAVAILABLE,
  title: 'The instance is starting',
  message: 'the instance is starting; what you asked for opens here when it runs',
  help: costAndTime(offer),
  retryAfterS: 3,
  refreshS: 3,
});

export const wakeRefused = ({ code, message, retryAfterS }: Refusal, apiUrl: string): Answer => ({
  status: 503,
  code,
  title: 'The instance is not started',
  message,
  ...(retryAfterS === undefined ? {} : { retryAfterS }),
  link: { href: `${apiUrl}/`, text: 'Go to the console' },
});

export const wakeTimedOut = (afterMs: number): Answer => ({
  status: 504,
  code: 'unavailable',
  title: 'The instance is still starting',
  message: `the instance did not run within ${afterMs / 1_000} s, the time for which this gateway holds a request`,
  help: ['send the request again: the start goes on'],
  retryAfterS: 10,
});

export const asksExplicitly =
  'a program starts the instance by a request with a credential, another method than GET, or the header "X-Berth-Wake: 1"';
