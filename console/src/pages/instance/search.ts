/** View of an instance, as its address holds it. */
export const tabs = ['overview', 'terminal', 'logs', 'figures', 'storage', 'ports', 'events', 'settings'] as const;
export type Tab = (typeof tabs)[number];

export interface InstanceViewSearch {
  tab?: Tab;
  /** Opens the notebook when it is ready. */
  open?: boolean;
}

export const readInstanceViewSearch = ({ tab, open }: Record<string, unknown>): InstanceViewSearch => {
  const known = tabs.find((one) => one === tab);
  return { ...(known === undefined ? {} : { tab: known }), ...(open === true ? { open } : {}) };
};
