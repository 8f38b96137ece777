/**
 * # Connection table of an instance
 *
 * The kernel has a connection table for each network namespace, each as large as the host's
 * (`nf_conntrack_max`), and charges it to nobody. Inside an instance only Docker's name server at
 * 127.0.0.11 needs the table, so everything else stays out. Root inside cannot change the rules,
 * for want of `NET_ADMIN`.
 */
import { runWithInput } from './run-with-input.ts';

const RESTORE_MS = 10_000;

/** From one source address only, or root inside would fill the table with others of 127.0.0.0/8. */
const RULES = `*raw
-A OUTPUT -s 127.0.0.1 -d 127.0.0.11 -p udp --dport 53 -j RETURN
-A OUTPUT -s 127.0.0.1 -d 127.0.0.11 -p tcp --dport 53 -j RETURN
-A OUTPUT -s 127.0.0.11 -o lo -j RETURN
-A OUTPUT -j CT --notrack
-A PREROUTING ! -i lo -j CT --notrack
COMMIT
*filter
-A OUTPUT -s 127.0.0.11 -m conntrack --ctstate NEW -j DROP
COMMIT
`;

/** `network`: path of the namespace. Throws where the kernel or the host cannot. */
export async function keepTableEmpty(nsenter: string, network: string): Promise<void> {
  const args = [`--net=${network}`, '--', 'iptables-restore', '-w', '5', '--noflush'];
  await runWithInput(nsenter, args, RULES, { timeout: RESTORE_MS });
}
