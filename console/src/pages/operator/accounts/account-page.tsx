/** One account: what it has, sorted by what fills the disks, its money, and its limits. */
import { Alert, Button, Group, Tabs, Text, Title } from '@mantine/core';
import { IconAlertTriangle, IconArrowLeft } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { useFormat } from '../../../app/format.ts';
import { Gone, isGone } from '../../../parts/gone.tsx';
import { ButtonLink } from '../../../parts/links.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { useFresh } from '../fresh.ts';
import { accountTabs, readAccountSearch } from '../search.ts';
import { AccountActs, AccountModal, type AccountActName } from './account-acts.tsx';
import { AccountMoney } from './account-money.tsx';
import { AccountResources } from './account-resources.tsx';
import { AccountLimits } from './account-limits.tsx';
import { roleOf } from './account.ts';
import { AccountState } from './columns.tsx';
import { accountQuery } from './queries.ts';

const route = getRouteApi('/operator/accounts/$accountId');

export function AccountPage() {
  const { accounts } = useTexts();
  const { dateTime } = useFormat();
  const { accountId } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const found = useQuery(accountQuery(accountId));
  const [open, setOpen] = useState<AccountActName>();
  useFresh('accounts', 'operatorDisks', 'accountMoney');
  if (isGone(found.error)) return <Gone {...accounts.gone} to="/operator/accounts" list={accounts.title} />;
  if (found.isError) return <Trouble error={found.error} onRetry={() => void found.refetch()} />;
  if (found.data === undefined) return <Loading h={480} label={accounts.title} />;
  const { account } = found.data;
  const isDeleting = account.state === 'deleting';
  return (
    <>
      <Group mb="xs" gap="sm">
        <ButtonLink variant="default" to="/operator/accounts" leftSection={<IconArrowLeft size={13} />}>
          {accounts.title}
        </ButtonLink>
        <Title order={1}>{account.username}</Title>
        <AccountState account={account} />
        <Text size="sm" c="dimmed">
          {[
            accounts.roles[roleOf(account.role)],
            account.email,
            accounts.since(dateTime(account.createdAtUnixMs)),
            accounts.factors(account.secondFactors),
          ]
            .filter((part) => part !== '')
            .join(' · ')}
        </Text>
      </Group>
      {isDeleting && account.deleteAtUnixMs !== null && (
        <Alert color="red" variant="light" mb="sm" icon={<IconAlertTriangle size={18} />}>
          <Text size="sm" mb={6}>
            {accounts.deletedAt(dateTime(account.deleteAtUnixMs))}
          </Text>
          <Button variant="default" onClick={() => setOpen('restore')}>
            {accounts.acts.restore}
          </Button>
        </Alert>
      )}
      {account.state === 'disabled' && (
        <Alert color="yellow" variant="light" mb="sm" icon={<IconAlertTriangle size={18} />}>
          {accounts.disabledBecause(account.reason)}
        </Alert>
      )}
      {!isDeleting && (
        <Group mb="sm" gap="xs">
          <Button variant="default" onClick={() => setOpen('credit')}>
            {accounts.acts.credit}
          </Button>
          {account.state === 'active' ? (
            <Button variant="default" onClick={() => setOpen('disable')}>
              {accounts.acts.disable}
            </Button>
          ) : (
            <Button variant="default" onClick={() => setOpen('enable')}>
              {accounts.acts.enable}
            </Button>
          )}
          <AccountActs account={account} />
        </Group>
      )}
      <Tabs
        value={search.tab ?? 'resources'}
        onChange={(tab) => void navigate({ search: readAccountSearch({ tab }), resetScroll: false })}
        keepMounted={false}
      >
        <Tabs.List mb="sm">
          {accountTabs.map((tab) => (
            <Tabs.Tab key={tab} value={tab}>
              {accounts.tabs[tab]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="resources">
          <AccountResources accountId={accountId} />
        </Tabs.Panel>
        <Tabs.Panel value="money">
          <AccountMoney account={account} />
        </Tabs.Panel>
        <Tabs.Panel value="limits">
          <AccountLimits account={account} />
        </Tabs.Panel>
      </Tabs>
      {open && <AccountModal act={open} account={account} onClose={() => setOpen(undefined)} />}
    </>
  );
}
