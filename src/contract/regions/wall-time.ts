/** Wall time and off-peak windows, for clients that draw them. */
export { wallTimeOf } from '../../domain/kernel/calendar.ts';
export { minutesOf, weekdays, type Weekday } from '../../domain/regions/off-peak.ts';
