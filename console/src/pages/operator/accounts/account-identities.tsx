/** Identities of login providers that open an account. */
import { Button, Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../../app/api.ts';
import { useFormat } from '../../../app/format.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import type { Account } from './account.ts';

interface Identity {
  issuer: string;
  subject: string;
}

const IDENTITIES = 'accountIdentities';

export function AccountIdentities({ account: { accountId, username } }: { account: Account }) {
  const { accounts } = useTexts();
  const { dateTime } = useFormat();
  const [unlinked, setUnlinked] = useState<Identity>();
  const found = useQuery({
    queryKey: [IDENTITIES, accountId],
    queryFn: async () => (await api.listIdentities({ accountId })).identities,
  });
  if (found.isError) return <Trouble error={found.error} onRetry={() => void found.refetch()} />;
  if (found.data === undefined) return <Loading h={60} label={accounts.identities} />;
  return (
    <Stack gap="xs">
      {found.data.length === 0 && (
        <Text size="sm" c="dimmed">
          {accounts.noIdentities}
        </Text>
      )}
      {found.data.map(({ issuer, subject, createdAtUnixMs }) => (
        <Group key={`${issuer} ${subject}`} gap="sm">
          <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
            {`${subject} · ${issuer} · ${accounts.since(dateTime(createdAtUnixMs))}`}
          </Text>
          <Button variant="default" size="compact-sm" onClick={() => setUnlinked({ issuer, subject })}>
            {accounts.acts.unlink}
          </Button>
        </Group>
      ))}
      {unlinked && (
        <ActModal
          title={accounts.unlinkTitle(username)}
          label={accounts.acts.unlink}
          isDestructive
          stale={[IDENTITIES]}
          onClose={() => setUnlinked(undefined)}
          act={() => api.unlinkIdentity({ accountId, ...unlinked })}
        >
          <Text size="sm">{accounts.unlinkEnds}</Text>
        </ActModal>
      )}
    </Stack>
  );
}
