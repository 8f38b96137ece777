/** Money, times and sizes in the language of the person. */
import type { Texts } from '../texts/en/index.ts';
import { useSpoken } from '../texts/provider.tsx';
import type { Language } from '../texts/texts.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEARS = 3 * 365 * DAY;
const steps = [
  ['day', DAY],
  ['hour', HOUR],
  ['minute', MINUTE],
  ['second', 1_000],
] as const;

type Formats = ReturnType<typeof formatsIn>;
const known = new Map<Language, Formats>();

/** The formatters of a language are made once: they cost more than what they format. */
export function useFormat(): Formats {
  const { language, texts } = useSpoken();
  const formats = known.get(language) ?? formatsIn(language, texts);
  known.set(language, formats);
  return formats;
}

/** Made at its first use: the first page of a visit needs few of them. */
function lazily<Made>(make: () => Made): () => Made {
  let made: Made | undefined;
  return () => (made ??= make());
}

const dollars = { style: 'currency', currency: 'USD', currencyDisplay: 'narrowSymbol' } as const;
const toTheMinute = { hour: '2-digit', minute: '2-digit' } as const;

function formatsIn(language: Language, texts: Texts) {
  const number = (options: Intl.NumberFormatOptions) => lazily(() => new Intl.NumberFormat(language, options));
  const time = (options: Intl.DateTimeFormatOptions) => lazily(() => new Intl.DateTimeFormat(language, options));
  const whole = number(dollars);
  const fine = number({
    ...dollars,
    maximumSignificantDigits: 3,
    minimumFractionDigits: 2,
    roundingPriority: 'morePrecision',
  });
  const large = number({ ...dollars, notation: 'compact', maximumFractionDigits: 1 });
  const percent = number({ style: 'percent', maximumFractionDigits: 0 });
  const plain = number({});
  const inHours = { style: 'unit', unit: 'hour', unitDisplay: 'short' } as const;
  const fewHours = number({ ...inHours, maximumFractionDigits: 1 });
  const manyHours = number({ ...inHours, maximumFractionDigits: 0 });
  const relative = lazily(() => new Intl.RelativeTimeFormat(language, { numeric: 'auto', style: 'short' }));
  const dateTime = time({ dateStyle: 'medium', timeStyle: 'medium' });
  const clock = time(toTheMinute);
  const second = time({ ...toTheMinute, second: '2-digit', hourCycle: 'h23' });
  const day = time({ month: 'short', day: 'numeric', ...toTheMinute });
  const date = time({ month: 'short', day: 'numeric' });
  const unit = (count: number, name: string) =>
    new Intl.NumberFormat(language, { style: 'unit', unit: name, unitDisplay: 'short' }).format(count);

  /** Two units: `2 h 14 min`. */
  const duration = (ms: number): string => {
    const at = steps.findIndex(([, length]) => ms >= length);
    const [name, length] = steps[at] ?? ['second', 1_000];
    const next = steps[at + 1];
    const rest = next === undefined ? 0 : Math.floor((ms % length) / next[1]);
    const first = unit(Math.floor(ms / length), name);
    return next === undefined || rest === 0 ? first : `${first} ${unit(rest, next[0])}`;
  };
  return {
    /** Cents, and more digits below a dime: `$0.0042`. */
    money: (amount: number): string => {
      if (Math.abs(amount) >= 100_000) return large().format(amount);
      return Math.abs(amount) < 0.1 && amount !== 0 ? fine().format(amount) : whole().format(amount);
    },
    duration,
    ago: (atMs: number, nowMs: number): string => {
      const ms = atMs - nowMs;
      const [name, length] = steps.find(([, length]) => Math.abs(ms) >= length) ?? ['second', 1_000];
      return relative().format(Math.trunc(ms / length), name);
    },
    dateTime: (atMs: number): string => dateTime().format(atMs),
    /** The clock with its seconds. */
    clock: (atMs: number): string => second().format(atMs),
    /** The clock today, else with the day. */
    moment: (atMs: number): string =>
      new Date(atMs).toDateString() === new Date().toDateString() ? clock().format(atMs) : day().format(atMs),
    date: (atMs: number): string => date().format(atMs),
    /** How long money lasts until a time. */
    lasting: (untilMs: number | null): string => {
      const ms = untilMs === null ? Infinity : untilMs - Date.now();
      return ms > YEARS ? texts.common.forever : duration(Math.max(0, ms));
    },
    percent: (share: number): string => percent().format(share),
    /** One decimal below ten. */
    hours: (count: number): string => (count < 10 ? fewHours() : manyHours()).format(count),
    count: (value: number): string => plain().format(value),
    /** Disk space in the GB of the API; below one in MB, so that little is not nothing. */
    size: (gb: number): string => {
      const isSmall = gb > 0 && gb < 1;
      return new Intl.NumberFormat(language, {
        style: 'unit',
        unit: isSmall ? 'megabyte' : 'gigabyte',
        maximumFractionDigits: isSmall || gb >= 100 ? 0 : 1,
      }).format(isSmall ? Math.max(1, gb * 1024) : gb);
    },
    bytes: (bytes: number): string => {
      const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte'] as const;
      const at = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
      return new Intl.NumberFormat(language, {
        style: 'unit',
        unit: units[at],
        unitDisplay: at === 0 ? 'long' : 'short',
        maximumFractionDigits: at === 0 ? 0 : 1,
      }).format(bytes / 1000 ** at);
    },
  };
}
