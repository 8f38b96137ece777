export const readActivitySearch = (_: Record<string, unknown>) => ({});
