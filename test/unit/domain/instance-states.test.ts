/**
 * The state page, held to what people see: each journey is a life of an instance, event by event, with the status after each. Together
 * they walk every move of the table, and a table in which any move is another, is missing, or is added does not pass.
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
} from '../../../src/domain/instance-states.ts';

type Table = Readonly<Record<InstanceStatus, Readonly<Partial<Record<StatusEvent, InstanceStatus>>>>>;
const isDiagnosis = (text: string): text is Diagnosis => text in diagnoses;

type Journey = readonly [from: InstanceStatus, ...moves: (readonly [StatusEvent, InstanceStatus])[]];

const journeys: Record<string, Journey> = {
  'a launch whose image is there': [
    'Initializing',
    ['create', 'Initializing'],
    ['made', 'Starting'],
    ['ready', 'Running'],
  ],
  'a launch whose ssh answered before anybody looked': ['Initializing', ['ready', 'Running']],
  'a launch that pulls, fails to for a while, and gets there': [
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
  'an image that is never had': [
    'Initializing',
    ['imageFails', 'Starting'],
    ['giveUp', 'StartingFailed'],
    ['start', 'Starting'],
  ],
  'a pull that ends with the container running at once': ['PullingImage', ['made', 'Starting']],
  'a pull after which it is ready at once': ['PullingImage', ['ready', 'Running']],
  'a pull after which it ends at once': ['PullingImage', ['end', 'Starting']],
  'a pull that is given up': ['PullingImage', ['giveUp', 'StartingFailed'], ['relaunch', 'Initializing']],
  'a launch that fails before its container': [
    'Initializing',
    ['giveUp', 'InitializationFailed'],
    ['relaunch', 'Initializing'],
  ],
  'a container that ends again and again': [
    'Initializing',
    ['end', 'Starting'],
    ['end', 'Starting'],
    ['giveUp', 'StartingFailed'],
  ],
  'a launch stopped on its way': ['Initializing', ['stop', 'Stopped'], ['relaunch', 'Initializing']],
  'a pull stopped on its way': ['PullingImage', ['stop', 'Stopped'], ['start', 'Starting']],
  'a start stopped on its way': ['Starting', ['stop', 'Stopped']],
  'a stop and a start': ['Running', ['stop', 'Stopped'], ['start', 'Starting'], ['ready', 'Running']],
  'a restart': [
    'Running',
    ['restart', 'Restarting'],
    ['create', 'Restarting'],
    ['made', 'Restarting'],
    ['ready', 'Running'],
  ],
  'a restart that must pull': ['Restarting', ['imageFails', 'Restarting'], ['pull', 'PullingImage']],
  'a restart that ends': ['Restarting', ['end', 'Starting']],
  'a restart that is given up': ['Restarting', ['giveUp', 'StartingFailed']],
  'a restart that is stopped': ['Restarting', ['stop', 'Stopped']],
  'a crash': ['Running', ['end', 'Starting'], ['create', 'Starting'], ['made', 'Starting'], ['ready', 'Running']],
  'a crash seen only once it was being made again': ['Running', ['create', 'Starting']],
  'a crash seen only once it ran again': ['Running', ['made', 'Starting']],
  'an image lost under a running one': ['Running', ['pull', 'PullingImage']],
  'an image lost under a running one that is not had': ['Running', ['imageFails', 'Starting']],
  'one that is given up while it says Running': ['Running', ['giveUp', 'StartingFailed'], ['archive', 'Archived']],
  'an archive of a failed one that is given up': ['StartingFailed', ['stop', 'Stopped']],
  'an archive of a running one': ['Running', ['archive', 'Archived'], ['start', 'Starting']],
  'an archive of a stopped one': ['Stopped', ['archive', 'Archived'], ['terminate', 'Released']],
  ...Object.fromEntries(
    instanceStatuses
      .filter((status) => status !== 'Released')
      .map((status): [string, Journey] => [`terminate while ${status}`, [status, ['terminate', 'Released']]]),
  ),
};

/** Differences between a table and the one that the journeys walk. */
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
        faults.push(`no journey tells of ${event} from ${status}`);
  return faults;
}

const changed = (status: InstanceStatus, event: StatusEvent, to: InstanceStatus | undefined): Table => ({
  ...transitions,
  [status]: { ...transitions[status], [event]: to },
});

describe('the table of transitions', () => {
  test('is what the journeys tell, and nothing beside', () => {
    expect(faultsOf(transitions)).toEqual([]);
  });

  test('does not pass with any one move changed, taken away or added', () => {
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

  test('what is not in it does not happen: it throws', () => {
    for (const status of instanceStatuses) {
      for (const event of statusEvents) {
        const to = transitions[status][event];
        if (to === undefined)
          expect(() => nextStatus(status, event)).toThrow(`no event "${event}" leads out of the status ${status}`);
        else expect(nextStatus(status, event)).toBe(to);
      }
    }
  });

  test('leads from every status to the end, and out of each that is not lasting without anybody wishing', () => {
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

test('no reason that stays when a wish is given up promises that anything goes on by itself', () => {
  for (const [reason, text] of Object.entries(diagnoses)) {
    const promises = / by itself/.test(text);
    const stays = permanentReason(isDiagnosis(reason) ? reason : '');
    expect(diagnoses[stays], `${reason} stays as ${stays}`).not.toMatch(/ by itself/);
    expect(promises, reason).toBe(stays !== reason);
  }
});

test('every reason but none says what can be done', () => {
  for (const [reason, text] of Object.entries(diagnoses)) {
    if (reason === '') expect(text).toBe('');
    else expect(text).toMatch(/^[A-Z].+\. .+\.$|^[A-Z].+[;:].+\.$/);
  }
});
