/** What an event says, in words. */
import { instanceStatuses } from '../../../../src/contract/statuses.ts';
import type { Texts } from '../../texts/en/index.ts';
import type { PastEvent } from './history.ts';

interface Formats {
  money: (dollars: number) => string;
  size: (gb: number) => string;
}

export interface Sentence {
  happened: string;
  details: string;
}

export function sentenceOf({ kind, data }: PastEvent, texts: Texts, { money, size }: Formats): Sentence {
  const { activity } = texts;
  const text = (key: string): string => {
    const value = data[key];
    return typeof value === 'string' ? value : '';
  };
  const number = (key: string): number | undefined => {
    const value = data[key];
    return typeof value === 'number' ? value : undefined;
  };
  const [amount, percent, sizeGB] = [number('amount'), number('percent'), number('sizeGB')];
  const status = statusWord(kind, text('status'), texts);
  const happened = activity.kinds[kind] ?? kind;
  const details = [
    text('type'),
    text('image'),
    kind === 'account.loggedIn' && text('from') !== '' ? activity.from(text('from')) : '',
    amount === undefined ? '' : money(amount),
    percent === undefined ? '' : activity.percent(percent),
    // What is observed of a volume names its size each time.
    sizeGB === undefined || kind.endsWith('.observed') ? '' : size(sizeGB),
    text('diagnosis'),
    text('reason'),
    text('ref'),
    text('fingerprint'),
  ];
  return {
    happened: status === '' ? happened : `${happened}: ${status}`,
    details: details.filter((part) => part !== '').join(' · '),
  };
}

function statusWord(kind: string, status: string, { statuses, volumes }: Texts): string {
  if (status === '') return '';
  if (kind.startsWith('volume.')) return volumes.statuses(status);
  const known = instanceStatuses.find((one) => one === status);
  return known === undefined ? status : statuses.instance[known];
}
