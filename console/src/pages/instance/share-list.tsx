/** Links that share ports, until they end or are revoked. */
import { Button, Paper, Table, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { RelativeTime } from '../../parts/relative-time.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { sharesQuery } from './queries.ts';
import { useChange } from './use-change.ts';

export function ShareList({ instanceId }: { instanceId: string }) {
  const { instance } = useTexts();
  const { shares: texts } = instance;
  const { dateTime } = useFormat();
  const shares = useQuery(sharesQuery(instanceId)).data;
  const revoke = useChange(
    (shareId: string) => api.unsharePort({ instanceId, shareId }),
    () => texts.revoked,
  );
  return (
    <Paper withBorder p="md">
      <Title order={2} mb="xs">
        {texts.title}
      </Title>
      {shares?.length === 0 && (
        <Text size="sm" c="dimmed">
          {texts.none}
        </Text>
      )}
      {shares !== undefined && shares.length > 0 && (
        <Table.ScrollContainer minWidth={420}>
          <Table fz="sm" verticalSpacing={4}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{texts.name}</Table.Th>
                <Table.Th>{texts.port}</Table.Th>
                <Table.Th>{texts.made}</Table.Th>
                <Table.Th>{texts.ends}</Table.Th>
                <Table.Td />
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {shares.map(({ shareId, name, port, createdAtUnixMs, expiresAtUnixMs }) => (
                <Table.Tr key={shareId}>
                  <Table.Td>{name || texts.unnamed}</Table.Td>
                  <Table.Td>{port}</Table.Td>
                  <Table.Td>
                    <RelativeTime atMs={createdAtUnixMs} />
                  </Table.Td>
                  <Table.Td>{dateTime(expiresAtUnixMs)}</Table.Td>
                  <Table.Td ta="right">
                    <Button
                      variant="default"
                      size="compact-sm"
                      loading={revoke.isPending && revoke.variables === shareId}
                      onClick={() => revoke.mutate(shareId)}
                    >
                      {texts.revoke}
                    </Button>
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Paper>
  );
}
