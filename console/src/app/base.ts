/** Path that a proxy puts this page below, of the address of this file; empty: none. */
const [, path = ''] = /^(.*)\/console-assets\//.exec(new URL(import.meta.url).pathname) ?? [];

export const base = path;
