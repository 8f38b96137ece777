/** Ranges of an egress policy as lines: `203.0.113.0/24 tcp 443,8000-8100`. Pure. */
import type { InputOf } from '../../../../src/contract/routes.ts';

type Policy = NonNullable<InputOf<'setEgress'>['policy']>;
export type Range = NonNullable<Policy['allow']>[number];

export const linesOfRanges = (ranges: readonly Range[]): string =>
  ranges
    .map(({ cidr, protocol, ports }) =>
      [cidr, ...(protocol === undefined ? [] : [protocol]), ...(ports === undefined ? [] : [ports.join(',')])].join(
        ' ',
      ),
    )
    .join('\n');

/** What a line says wrong is left to the API, which names it. */
export const rangesOf = (lines: string): Range[] =>
  lines
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([cidr]) => cidr !== undefined && cidr !== '')
    .map(([cidr = '', ...rest]) => {
      const protocol = rest.find((word): word is 'tcp' | 'udp' => word === 'tcp' || word === 'udp');
      const ports = rest
        .filter((word) => word !== protocol)
        .flatMap((word) => word.split(',').filter((one) => one !== ''));
      return {
        cidr,
        ...(protocol === undefined ? {} : { protocol }),
        ...(ports.length === 0 ? {} : { ports }),
      };
    });
