export const readAccountsSearch = (_: Record<string, unknown>) => ({});
export const readCatalogSearch = (_: Record<string, unknown>) => ({});
export const readAuditSearch = (_: Record<string, unknown>) => ({});
