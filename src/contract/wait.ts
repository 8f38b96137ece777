/** Header that lets a launch or start wait for capacity instead of failing with 409. */
export const WAIT_HEADER = 'X-Berth-Wait-For-Capacity';
/** Meaning of the value `true`. */
export const DEFAULT_WAIT_S = 24 * 3_600;
export const MAX_WAIT_S = 7 * 24 * 3_600;
