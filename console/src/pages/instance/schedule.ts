/** Times of the form of automatic stops. Pure. */

const pad = (number: number): string => String(number).padStart(2, '0');

/** Value of a field for date and time, in the time zone of the browser. */
export function fieldOf(atMs: number | null): string {
  if (atMs === null) return '';
  const at = new Date(atMs);
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${day}T${pad(at.getHours())}:${pad(at.getMinutes())}`;
}

/** Null for an empty field or no time. */
export function timeOf(field: string): number | null {
  const ms = field === '' ? Number.NaN : new Date(field).getTime();
  return Number.isNaN(ms) ? null : ms;
}

const HOUR_MINUTES = 60;

/** Whole hours where they are whole. */
export const hoursOf = (minutes: number | null): number | '' =>
  minutes === null ? '' : Math.round((minutes / HOUR_MINUTES) * 100) / 100;

export const minutesOf = (hours: number | string): number | null => {
  const minutes = Math.round(Number(hours) * HOUR_MINUTES);
  return hours === '' || !(minutes >= 1) ? null : minutes;
};
