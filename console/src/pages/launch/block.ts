import type { Choices, Draft, Known } from './draft.ts';

export interface BlockProps {
  draft: Draft;
  known: Known;
  change: (over: Choices) => void;
}
