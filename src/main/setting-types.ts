/** Types of settings that several files read. */
import { z } from 'zod';
import { plainName } from '../edge/http/host-header.ts';

/** A text that `parse` accepts; null refuses with the message. */
export const text = <Value>(parse: (given: string) => Value | null, message: string) =>
  z.string().transform((given, ctx) => {
    const value = parse(given);
    if (value !== null) return value;
    ctx.addIssue({ code: 'custom', message });
    return z.NEVER;
  });

export const list = <Item extends z.ZodType<unknown, string>>(item: Item) =>
  z
    .string()
    .transform((text) => text.split(',').map((part) => part.trim()))
    .pipe(z.array(item));

export const hostName = z
  .string()
  .regex(/^[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?$/i, {
    error: 'must be host names without ports, separated by commas, for example berth.example.org,berth',
  })
  .transform(plainName);

export interface Address {
  host: string;
  port: number;
}

export const address = text((given): Address | null => {
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(given);
  const port = Number(match?.[3]);
  return match && port <= 65535 ? { host: match[1] ?? match[2] ?? '', port } : null;
}, 'must be host:port, for example 127.0.0.1:8080');

export const listenAddress = address.refine(({ host }) => !host.includes('*'), {
  error: 'must name an address: 0.0.0.0:PORT listens on all of IPv4, [::]:PORT on all of IPv4 and IPv6',
});
