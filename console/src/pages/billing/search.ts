export const readBillingSearch = (_: Record<string, unknown>) => ({});
