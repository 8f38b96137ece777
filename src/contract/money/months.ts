/** Months and days of a time zone as the books count them, for clients that show them. */
export { bucketsOf, monthPattern, monthSpan, type TimeSpan } from '../../domain/money/usage-buckets.ts';
