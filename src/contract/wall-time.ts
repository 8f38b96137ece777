/** Wall time and off-peak windows, for clients that draw them. */
export { wallTimeOf } from '../domain/calendar.ts';
export { minutesOf, weekdays, type Weekday } from '../domain/off-peak.ts';
