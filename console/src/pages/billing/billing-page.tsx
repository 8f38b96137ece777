/** What there is, what goes, when it ends, and where it went. */
import { Group, Stack, Tabs, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useFormat } from '../../app/format.ts';
import { forecastQuery } from '../../app/queries.ts';
import { Loading } from '../../parts/loading.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { CreditsTab } from './credits-tab.tsx';
import { EntriesTab } from './entries-tab.tsx';
import { MoneyNow } from './money-now.tsx';
import { OwnBudgets } from './own-budgets.tsx';
import { billingTabs, readBillingSearch, type BillingSearch } from './search.ts';
import { UseTab } from './use-tab.tsx';

const route = getRouteApi('/billing');

export function BillingPage() {
  const { billing, instances } = useTexts();
  const { money, lasting } = useFormat();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const forecast = useQuery(forecastQuery);
  if (forecast.isError) return <Trouble error={forecast.error} onRetry={() => void forecast.refetch()} />;
  if (forecast.data === undefined) return <Loading h={480} label={billing.title} />;
  const { available, burnRate, lastsUntilUnixMs } = forecast.data;
  const change = (over: BillingSearch, replace = false): void =>
    void navigate({ search: (now) => readBillingSearch({ ...now, ...over }), replace, resetScroll: false });
  const tab = search.tab ?? 'use';
  return (
    <Stack gap="md">
      <Group gap="sm" mih={28} align="baseline">
        <Title order={1}>{billing.available(money(available))}</Title>
        <Text c="dimmed" size="sm">
          {lastsUntilUnixMs === null
            ? billing.nothingCosts
            : `${instances.rate(money(burnRate))} · ${instances.lasts(lasting(lastsUntilUnixMs))}`}
        </Text>
      </Group>
      <MoneyNow forecast={forecast.data} />
      <Tabs
        value={tab}
        onChange={(value) => change({ tab: billingTabs.find((one) => one === value), line: undefined })}
        keepMounted={false}
      >
        <Tabs.List mb="sm">
          {billingTabs.map((one) => (
            <Tabs.Tab key={one} value={one}>
              {billing.tabs[one]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="use">
          <UseTab search={search} change={change} forecast={forecast.data} />
        </Tabs.Panel>
        <Tabs.Panel value="budgets">
          <OwnBudgets />
        </Tabs.Panel>
        <Tabs.Panel value="credits">
          <CreditsTab />
        </Tabs.Panel>
        <Tabs.Panel value="entries">
          <EntriesTab kind={search.kind} onKind={(kind) => change({ kind }, true)} />
        </Tabs.Panel>
      </Tabs>
    </Stack>
  );
}
