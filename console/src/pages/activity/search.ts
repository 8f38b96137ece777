/** View of what happened, as its address holds it. */
import { textOf } from '../../parts/address.ts';

export interface ActivitySearch {
  /** First part of the kinds of events, such as `volume`. */
  kind?: string;
  /** ID of the resource. */
  subject?: string;
  /** Text in what happened. */
  q?: string;
}

export const readActivitySearch = ({ kind, subject, q }: Record<string, unknown>): ActivitySearch => ({
  kind: textOf(kind),
  subject: textOf(subject),
  q: textOf(q),
});
