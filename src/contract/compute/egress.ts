/** Egress policies: what instances may connect to beyond the network of their account. */
import { z } from 'zod';
import { egressModes, egressProtocols, refusalOfPorts, refusalOfRange } from '../../domain/regions/egress.ts';
import { answer, id, named, plainText, request, textOrNull } from '../common.ts';
import { adminReadRoute, adminRoute } from '../route.ts';

const MAX_RANGES = 100;
const MAX_PORTS = 15;

const checked = (
  refusalOf: (text: string) => string | null,
  { pattern, maxLength, example }: { pattern: string; maxLength: number; example: string },
) =>
  z
    .string()
    .superRefine((given, ctx) => {
      const message = refusalOf(given);
      if (message !== null) ctx.addIssue({ code: 'custom', message, input: given });
    })
    .meta({ pattern, maxLength, examples: [example] });

const range = request('EgressRange', {
  cidr: checked(refusalOfRange, {
    pattern: '^[0-9.]{7,15}(?:/[0-9]{1,2})?$',
    maxLength: 18,
    example: '203.0.113.0/24',
  }).describe('IPv4 address or CIDR range'),
  ports: z
    .array(
      checked(refusalOfPorts, { pattern: '^[0-9]{1,5}(?:-[0-9]{1,5})?$', maxLength: 11, example: '443' }).describe(
        'Port, or first-last',
      ),
    )
    .min(1)
    .max(MAX_PORTS)
    .describe('Ports; without them all, and every protocol')
    .optional(),
  protocol: z.enum(egressProtocols).describe('Only this protocol; by default both').optional(),
});

const policy = named(
  'EgressPolicy',
  z
    .object({
      mode: z
        .enum(egressModes)
        .describe('`open`: no limit; `none`: nothing, not even names; `list`: `allow` and the name servers'),
      allow: z.array(range).max(MAX_RANGES).describe('Ranges of the mode `list`').optional(),
    })
    .superRefine(({ mode, allow }, ctx) => {
      const given = allow !== undefined;
      if ((mode === 'list') === given) return;
      const message = given ? `must not be set for the mode ${mode}` : 'must be set for the mode list; it may be empty';
      ctx.addIssue({ code: 'custom', path: ['allow'], message, input: allow });
    })
    .transform(({ mode, allow = [] }) => (mode === 'list' ? { mode, allow } : { mode })),
);

const holder = {
  regionId: id.describe('Region, for accounts without a policy of their own').optional(),
  account: plainText(320).describe('Account ID, user name or email address').optional(),
};
export const egressGetRequest = request('GetEgressRequest', holder, 'Requires exactly one of the two');
export const egressSetRequest = request('SetEgressRequest', {
  ...holder,
  policy: policy.nullable().describe('Null: open for a region, that of the region for an account'),
});
export const egressAnswer = answer('EgressAnswer', {
  regionId: textOrNull('Region ID, or null'),
  accountId: textOrNull('Account, or null'),
  policy: z
    .object({ mode: z.enum(egressModes).describe('Mode'), allow: z.array(range).describe('Ranges').optional() })
    .nullable()
    .describe('Null: open for a region, that of the region for an account'),
});

export const egressRoutes = {
  getEgress: adminReadRoute('/admin/egress/get', egressGetRequest, egressAnswer, {
    summary: 'Return the egress policy of a region or an account (administrators)',
  }),
  setEgress: adminRoute('/admin/egress/set', egressSetRequest, egressAnswer, {
    idempotent: true,
    summary: 'Set what instances of a region or an account may connect to, running ones too (administrators)',
  }),
} as const;
