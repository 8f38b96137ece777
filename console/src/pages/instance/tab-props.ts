import type { InstanceView } from './queries.ts';
import type { InstanceViewSearch } from './search.ts';

export interface TabProps {
  view: InstanceView;
  search: InstanceViewSearch;
  /** Changes the address; back does not return to each letter of a filter. */
  change: (over: InstanceViewSearch) => void;
}
