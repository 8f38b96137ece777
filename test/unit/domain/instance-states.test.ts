/**
 * Checks the table of transitions against journeys. A journey is a life of an instance: events, and
 * the status after each. The journeys cover every transition; a table with any transition changed,
 * missing or added fails.
 */
import { describe, expect, test } from 'vitest';
import {
  nextStatus,
  deadlines,
  diagnoses,
  instanceStatuses,
  isLasting,
  permanentReason,
  statusEvents,
  transitions,
  type Diagnosis,
  type InstanceStatus,
  type StatusEvent,
} from '../../../src/domain/compute/instance-states.ts';

type Table = Readonly<Record<InstanceStatus, Readonly<Partial<Record<StatusEvent, InstanceStatus>>>>>;
const isDiagnosis = (text: string): text is Diagnosis => text in diagnoses;

type Journey = readonly [from: InstanceStatus, ...moves: (readonly [StatusEvent, InstanceStatus])[]];

const journeys: Record<string, Journey> = {
  'a launch whose image is present': [
    'Initializing',
    ['create', 'Initializing'],
    ['made', 'Starting'],
    ['ready', 'Running'],
  ],
  'a launch whose ssh answered before the first check': ['Initializing', ['ready', 'Running']],
  'a launch whose pull fails at first, then succeeds': [
    'Initializing',
    ['pull', 'PullingImage'],
    ['pull', 'PullingImage'],
    ['imageFails', 'Starting'],
    ['imageFails', 'Starting'],
    ['pull', 'PullingImage'],
    ['create', 'Starting'],
    ['create', 'Starting'],
    ['made', 'Starting'],
    ['ready', 'Running'],
  ],
  'an image that can never be pulled': [
    'Initializing',
    ['imageFails', 'Starting'],
    ['failPermanently', 'StartingFailed'],
    ['start', 'Starting'],
  ],
  'a pull that ends with the container running at once': ['PullingImage', ['made', 'Starting']],
  'a pull after which the instance is ready at once': ['PullingImage', ['ready', 'Running']],
  'a pull after which the container ends at once': ['PullingImage', ['end', 'Starting']],
  'a pull that fails permanently': [
    'PullingImage',
    ['failPermanently', 'StartingFailed'],
    ['relaunch', 'Initializing'],
  ],
  'a launch that fails before its container': [
    'Initializing',
    ['failPermanently', 'InitializationFailed'],
    ['relaunch', 'Initializing'],
  ],
  'a container that ends repeatedly': [
    'Initializing',
    ['end', 'Starting'],
    ['end', 'Starting'],
    ['failPermanently', 'StartingFailed'],
  ],
  'a launch stopped before Running': ['Initializing', ['stop', 'Stopped'], ['relaunch', 'Initializing']],
  'a stopped pull': ['PullingImage', ['stop', 'Stopped'], ['start', 'Starting']],
  'a start stopped before Running': ['Starting', ['stop', 'Stopped']],
  'a stop and a start': ['Running', ['stop', 'Stopped'], ['start', 'Starting'], ['ready', 'Running']],
  'a restart': [
    'Running',
    ['restart', 'Restarting'],
    ['create', 'Restarting'],
    ['made', 'Restarting'],
    ['ready', 'Running'],
  ],
  'a restart that pulls': ['Restarting', ['imageFails', 'Restarting'], ['pull', 'PullingImage']],
  'a restart that ends': ['Restarting', ['end', 'Starting']],
  'a restart that fails permanently': ['Restarting', ['failPermanently', 'StartingFailed']],
  'a restart that is stopped': ['Restarting', ['stop', 'Stopped']],
  'a crash': ['Running', ['end', 'Starting'], ['create', 'Starting'], ['made', 'Starting'], ['ready', 'Running']],
  'a crash observed while the container is recreated': ['Running', ['create', 'Starting']],
  'a crash observed after the container was recreated': ['Running', ['made', 'Starting']],
  'an image lost while Running': ['Running', ['pull', 'PullingImage']],
  "an image lost while Running that can't be pulled": ['Running', ['imageFails', 'Starting']],
  'a permanent failure while Running': ['Running', ['failPermanently', 'StartingFailed'], ['archive', 'Archived']],
  'a cancelled archive of a failed instance': ['StartingFailed', ['stop', 'Stopped']],
  'an archive of a running instance': ['Running', ['archive', 'Archived'], ['start', 'Starting']],
  'an archive of a stopped instance': ['Stopped', ['archive', 'Archived'], ['terminate', 'Released']],
  ...Object.fromEntries(
    instanceStatuses
      .filter((status) => status !== 'Released')
      .map((status): [string, Journey] => [`terminate while ${status}`, [status, ['terminate', 'Released']]]),
  ),
};

/** Differences between a table and the journeys. */
function faultsOf(table: Table): string[] {
  const walked = new Set<string>();
  const faults: string[] = [];
  for (const [name, [from, ...moves]] of Object.entries(journeys)) {
    let status = from;
    for (const [event, expected] of moves) {
      const next = table[status][event];
      walked.add(`${status} ${event}`);
      if (next !== expected) faults.push(`${name}: ${event} leads from ${status} to ${next}, not to ${expected}`);
      status = expected;
    }
  }
  for (const status of instanceStatuses)
    for (const event of statusEvents)
      if (table[status][event] !== undefined && !walked.has(`${status} ${event}`))
        faults.push(`no journey covers ${event} from ${status}`);
  return faults;
}

const changed = (status: InstanceStatus, event: StatusEvent, to: InstanceStatus | undefined): Table => ({
  ...transitions,
  [status]: { ...transitions[status], [event]: to },
});

describe('the table of transitions', () => {
  test('has exactly the transitions of the journeys', () => {
    expect(faultsOf(transitions)).toEqual([]);
  });

  test('fails the journeys with any one transition changed, removed or added', () => {
    let tried = 0;
    for (const status of instanceStatuses) {
      for (const event of statusEvents) {
        for (const to of [undefined, ...instanceStatuses]) {
          if (to === transitions[status][event]) continue;
          tried += 1;
          expect(faultsOf(changed(status, event, to)), `${status} ${event} ${to}`).not.toEqual([]);
        }
      }
    }
    expect(tried).toBe(instanceStatuses.length * statusEvents.length * instanceStatuses.length);
  });

  test('throws for each transition outside the table', () => {
    for (const status of instanceStatuses) {
      for (const event of statusEvents) {
        const to = transitions[status][event];
        if (to === undefined)
          expect(() => nextStatus(status, event)).toThrow(
            `the status ${status} has no transition for the event "${event}"`,
          );
        else expect(nextStatus(status, event)).toBe(to);
      }
    }
  });

  test('allows terminate in every status, and leads each transient status to a lasting one without a request', () => {
    const requests: readonly StatusEvent[] = ['start', 'relaunch', 'restart', 'terminate'];
    for (const status of instanceStatuses) {
      if (status !== 'Released') expect(transitions[status].terminate).toBe('Released');
      if (isLasting(status)) continue;
      expect(status in deadlines).toBe(true);
      const alone = statusEvents
        .filter((event) => !requests.includes(event))
        .map((event) => transitions[status][event]);
      expect(alone.some((to) => to !== undefined && isLasting(to))).toBe(true);
    }
  });
});

test('no reason of a permanent failure promises automatic recovery', () => {
  for (const [reason, text] of Object.entries(diagnoses)) {
    const promises = / automatically/.test(text);
    const stays = permanentReason(isDiagnosis(reason) ? reason : '');
    expect(diagnoses[stays], `${reason} stays as ${stays}`).not.toMatch(/ automatically/);
    expect(promises, reason).toBe(stays !== reason);
  }
});

test('every reason names a remedy', () => {
  for (const [reason, text] of Object.entries(diagnoses)) {
    if (reason === '') expect(text).toBe('');
    else expect(text).toMatch(/^[A-Z].+\. .+\.$|^[A-Z].+[;:].+\.$/);
  }
});
