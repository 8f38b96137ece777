/**
 * The header by which a launch or start waits in line where the region has no room, instead of being refused. Ours; the interface
 * fixes bodies and answers alone, and these stay as they are.
 */
export const WAIT_HEADER = 'X-Berth-Wait-For-Capacity';
/** What `true` stands for. */
export const DEFAULT_WAIT_S = 24 * 3_600;
export const MAX_WAIT_S = 7 * 24 * 3_600;
