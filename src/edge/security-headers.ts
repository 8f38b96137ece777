/**
 * Headers of every answer of ours: nothing loads, frames, embeds or opens it with our rights. Pages
 * replace the policy by one of their own.
 */
const NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const HSTS_S = 366 * 24 * 3_600;

const pageless = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'permissions-policy': 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
};

export const securityHeaders: Readonly<Record<string, string>> = { 'content-security-policy': NOTHING, ...pageless };

/** For answers whose policy differs. */
export const headersBesidesPolicy: readonly (readonly [string, string])[] = Object.entries(pageless);

/** For answers over TLS. */
export const STRICT_TRANSPORT: readonly [string, string] = ['strict-transport-security', `max-age=${HSTS_S}`];
