/** All of one record, and the ways to what belongs to it. */
import { Button, Code, Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api } from '../../../app/api.ts';
import { useFormat } from '../../../app/format.ts';
import { CopyButton } from '../../../parts/copy-button.tsx';
import { Dialog } from '../../../parts/dialog.tsx';
import { Facts } from '../../../parts/facts.tsx';
import { ButtonLink } from '../../../parts/links.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import type { AuditSearch } from '../search.ts';

interface RecordModalProps {
  position: number;
  filters: Omit<Parameters<typeof api.listAudit>[0], 'pager'>;
  onFilter: (over: AuditSearch) => void;
  onClose: () => void;
}

const PAGE = 500;

export function RecordModal({ position, filters, onFilter, onClose }: RecordModalProps) {
  const { audit } = useTexts();
  const { dateTime } = useFormat();
  const query = useQuery({
    queryKey: ['audit', 'record', position, filters],
    queryFn: () => recordAt(position, filters),
  });
  const record = query.data;
  const id = (value: string) => (
    <Group gap={2} wrap="nowrap">
      <Code fz={11} className="breaks">
        {value}
      </Code>
      <CopyButton value={value} />
    </Group>
  );
  return (
    <Dialog onClose={onClose} title={audit.record(position)} size="lg">
      {query.isError && <Trouble error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Loading h={220} label={audit.record(position)} />}
      {record === null && <Text size="sm">{audit.gone}</Text>}
      {record && (
        <Stack gap="sm">
          <Facts
            facts={[
              [audit.columns.time, dateTime(record.atUnixMs)],
              [audit.columns.who, record.username === '' ? audit.nobody : record.username],
              [
                audit.credential,
                <>
                  {audit.credentials(record.credential)}
                  {record.credentialId !== '' && id(record.credentialId)}
                </>,
              ],
              [audit.columns.address, record.address],
              [audit.userAgent, record.userAgent],
              [audit.columns.what, record.route],
              [audit.columns.outcome, record.count > 1 ? audit.times(record.outcome, record.count) : record.outcome],
              [
                audit.columns.which,
                <Stack key="ids" gap={2}>
                  {record.subjectIds.map((subject) => (
                    <div key={subject}>{id(subject)}</div>
                  ))}
                </Stack>,
              ],
              [audit.requestId, id(record.requestId)],
              [audit.hash, id(record.hash)],
            ]}
          />
          <Group gap={4}>
            {record.accountId !== '' && (
              <>
                <Button variant="default" onClick={() => onFilter({ account: record.username })}>
                  {audit.allOfAccount}
                </Button>
                <ButtonLink
                  variant="default"
                  to="/operator/accounts/$accountId"
                  params={{ accountId: record.accountId }}
                >
                  {audit.openAccount}
                </ButtonLink>
              </>
            )}
            <Button variant="default" onClick={() => onFilter({ route: record.route })}>
              {audit.allOfRoute}
            </Button>
            {record.subjectIds[0] !== undefined && (
              <Button variant="default" onClick={() => onFilter({ subject: record.subjectIds[0] })}>
                {audit.allOfSubject}
              </Button>
            )}
          </Group>
        </Stack>
      )}
    </Dialog>
  );
}

/** Records have positions without gaps: without filters, the page of one is known by the newest. */
async function recordAt(position: number, filters: RecordModalProps['filters']) {
  const ask = async (currentPage: number, pageSize: number) =>
    (await api.listAudit({ pager: { currentPage, pageSize }, ...filters })).records;
  const first = await ask(1, PAGE);
  const near = first.find((record) => record.position === position);
  if (near) return near;
  if (Object.keys(filters).length > 0) return null;
  const newest = first[0]?.position ?? 0;
  const pageOf = Math.floor((newest - position) / PAGE) + 1;
  const rows = pageOf < 1 ? [] : await ask(pageOf, PAGE);
  return rows.find((record) => record.position === position) ?? null;
}
