/**
 * What each `diagnosisReason` means, in languages other than the API's own. English needs none: the
 * API says it in `diagnosisMessage`.
 */
export const reasons: Readonly<Record<string, string>> = {};
