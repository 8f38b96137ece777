export const stripeModes = ['live', 'test'] as const;
export type StripeMode = (typeof stripeModes)[number];
