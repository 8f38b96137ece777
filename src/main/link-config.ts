/** Settings of the link between API and gateway on two machines. */
import { z } from 'zod';
import { address, listenAddress } from './setting-types.ts';

export const linkSettings = {
  BERTH_LINK_LISTEN: listenAddress.optional(),
  BERTH_LINK_PEER: address.optional(),
  BERTH_LINK_SECRET_FILE: z.string().startsWith('/', { error: 'must be an absolute path' }).optional(),
};

type LinkSettings = z.output<z.ZodObject<typeof linkSettings>> & { BERTH_ROLE: 'all' | 'api' | 'gateway' };

export function linkOf(data: LinkSettings, wrongSetting: (name: string, reason: string) => Error) {
  const { BERTH_LINK_LISTEN: listen, BERTH_LINK_PEER: peer, BERTH_LINK_SECRET_FILE: secretFile } = data;
  if (!listen && !peer && !secretFile) return null;
  if (data.BERTH_ROLE === 'all')
    throw wrongSetting('BERTH_ROLE', 'must be api or gateway, because BERTH_LINK_… joins these two processes');
  const because = 'must be set, because BERTH_LINK_LISTEN, BERTH_LINK_PEER and BERTH_LINK_SECRET_FILE belong together';
  if (!listen) throw wrongSetting('BERTH_LINK_LISTEN', because);
  if (!peer) throw wrongSetting('BERTH_LINK_PEER', because);
  if (!secretFile) throw wrongSetting('BERTH_LINK_SECRET_FILE', because);
  return { listen, peer, secretFile };
}
