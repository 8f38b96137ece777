export const readAccessSearch = (_: Record<string, unknown>) => ({});
