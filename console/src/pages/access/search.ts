/** View of the ways to the account, as its address holds it. */
import { oneOf, textOf } from '../../parts/address.ts';

export const accessTabs = ['keys', 'ssh', 'sessions', 'webhooks'] as const;
export type AccessTab = (typeof accessTabs)[number];

export interface AccessSearch {
  /** Left out: API keys. */
  tab?: Exclude<AccessTab, 'keys'>;
  /** Webhook whose deliveries are open. */
  webhook?: string;
  /** The form of a new row of the tab is open. */
  create?: true;
}

export const readAccessSearch = ({ tab, webhook, create }: Record<string, unknown>): AccessSearch => ({
  tab: oneOf(tab, ['ssh', 'sessions', 'webhooks']),
  webhook: textOf(webhook),
  create: create === true ? true : undefined,
});
