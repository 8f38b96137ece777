/** Health of a host's GPUs: reasons against launches, and their ends. */

export interface CardFinding {
  /** `gpuLost`, `gpuNeedsReset`, `eccUncorrected`, or `xid <number>`. */
  reason: string;
  /** Another value: the same happened again. */
  evidence: string;
}

/** Reasons for which a card is slower than it could be. */
export const slowdowns = ['heat', 'powerBrake', 'powerLimit'] as const;
export type Slowdown = (typeof slowdowns)[number];

/** Readings of a card now; null: unknown. */
export interface CardFigures {
  slowedBy?: readonly Slowdown[] | undefined;
  busyPercent: number | null;
  memoryUsedBytes: number | null;
  memoryTotalBytes: number | null;
  powerMilliwatts: number | null;
  temperatureCelsius: number | null;
}

/** Over several cards. A figure that one of them lacks is null. */
export interface CardSum extends Pick<CardFigures, 'memoryUsedBytes' | 'memoryTotalBytes' | 'busyPercent'> {
  count: number;
}

export function sumOfCards(cards: readonly CardFigures[]): CardSum {
  const sum = (name: Exclude<keyof CardSum, 'count'>): number | null =>
    cards.reduce<number | null>((all, { [name]: one }) => (all === null || one === null ? null : all + one), 0);
  const busy = sum('busyPercent');
  return {
    count: cards.length,
    memoryUsedBytes: sum('memoryUsedBytes'),
    memoryTotalBytes: sum('memoryTotalBytes'),
    busyPercent: busy === null || cards.length === 0 ? null : Math.round(busy / cards.length),
  };
}

export interface CardSigns {
  isLost: boolean;
  /** Action for the operator; null: none, or unknown. */
  recovery: string | null;
  /** Since the driver was loaded, or the card was reset. */
  eccUncorrected: number | null;
}

export interface Xid {
  code: number;
  /** Time of the kernel's log. */
  at: string;
}

/** Ends by a reset or restart: docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog */
const gravest = new Set([46, 48, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143, 155, 156, 158]);

const LOST = { reason: 'gpuLost', evidence: '' };

export const findingsOf = ({ isLost, recovery, eccUncorrected }: CardSigns): CardFinding[] => [
  ...(isLost ? [LOST] : []),
  ...(recovery === null ? [] : [{ reason: 'gpuNeedsReset', evidence: recovery }]),
  ...(eccUncorrected ? [{ reason: 'eccUncorrected', evidence: String(eccUncorrected) }] : []),
];

export const findingOfXid = ({ code, at }: Xid): CardFinding[] =>
  gravest.has(code) ? [{ reason: `xid ${code}`, evidence: at }] : [];

/** Ends with good readings, the others by an operator. */
const passes = (reason: string): boolean => reason === 'gpuLost' || reason === 'gpuNeedsReset';

export interface Quarantine extends CardFinding {
  cardId: string;
  sinceMs: number;
  /** An operator returned the card despite this evidence. */
  isReturned: boolean;
}

export interface QuarantineChanges {
  begun: CardFinding[];
  continued: CardFinding[];
  ended: string[];
  cleared: string[];
}

export function quarantineChanges(stored: readonly Quarantine[], findings: readonly CardFinding[]): QuarantineChanges {
  const byReason = new Map(stored.map((one) => [one.reason, one]));
  const found = new Set(findings.map(({ reason }) => reason));
  const changed = findings.filter(({ reason, evidence }) => byReason.get(reason)?.evidence !== evidence);
  const isOpen = ({ reason }: CardFinding): boolean => byReason.get(reason)?.isReturned === false;
  const gone = stored.filter(({ reason }) => !found.has(reason));
  return {
    begun: changed.filter((one) => !isOpen(one)),
    continued: changed.filter(isOpen),
    ended: gone.filter(({ reason, isReturned }) => !isReturned && passes(reason)).map(({ reason }) => reason),
    cleared: gone.filter(({ isReturned }) => isReturned).map(({ reason }) => reason),
  };
}
