/** One instance: its state in a sentence, its acts, and a tab for each question about it. */
import { Tabs } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { lazy, Suspense } from 'react';
import { Gone, isGone } from '../../parts/gone.tsx';
import { Loading } from '../../parts/loading.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { EventsTab } from './events-tab.tsx';
import { Head } from './head.tsx';
import { isFailed, isReleased, isStarting } from './headline.ts';
import classes from './instance.module.css';
import { OverviewTab } from './overview-tab.tsx';
import { instanceQuery } from './queries.ts';
import { Reason } from './reason.tsx';
import type { TabProps } from './tab-props.ts';
import { readInstanceViewSearch, tabs, type InstanceViewSearch, type Tab } from './search.ts';
import { StartingPanel } from './starting-panel.tsx';

const TerminalTab = lazy(() => import('./terminal-tab.tsx').then(({ TerminalTab: tab }) => ({ default: tab })));
const LogsTab = lazy(() => import('./logs-tab.tsx').then(({ LogsTab: tab }) => ({ default: tab })));
const FiguresTab = lazy(() => import('./figures-tab.tsx').then(({ FiguresTab: tab }) => ({ default: tab })));
const StorageTab = lazy(() => import('./storage-tab.tsx').then(({ StorageTab: tab }) => ({ default: tab })));
const PortsTab = lazy(() => import('./ports-tab.tsx').then(({ PortsTab: tab }) => ({ default: tab })));
const SettingsTab = lazy(() => import('./settings-tab.tsx').then(({ SettingsTab: tab }) => ({ default: tab })));

const route = getRouteApi('/instances/$instanceId');

/** Of a terminated instance. */
const leftTabs: readonly Tab[] = ['overview', 'events'];

export function InstancePage() {
  const { instance: texts } = useTexts();
  const { instanceId } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: view, error, refetch } = useQuery(instanceQuery(instanceId));
  if (view === undefined) {
    if (isGone(error)) return <Gone {...texts.gone} to="/instances" list={texts.toList} />;
    if (error) return <Trouble error={error} onRetry={() => void refetch()} />;
    return <Loading h={420} label={texts.page} />;
  }
  const offered = isReleased(view) ? leftTabs : tabs;
  const tab = offered.find((one) => one === search.tab) ?? 'overview';
  const show = (over: InstanceViewSearch, replace: boolean): void =>
    void navigate({ search: (now) => readInstanceViewSearch({ ...now, ...over }), replace });
  const props: TabProps = { view, search, change: (over) => show(over, true) };
  return (
    <>
      <Head view={view} isAsked={search.open === true} onOpened={() => show({ open: false }, true)} />
      <Reason view={view} onTab={(next) => show({ tab: next }, false)} />
      <Tabs
        value={tab}
        onChange={(value) => show({ tab: tabs.find((one) => one === value) ?? 'overview' }, false)}
        keepMounted={false}
      >
        <Tabs.List className={classes.tabs} mb="md" aria-label={texts.tabList}>
          {offered.map((name) => (
            <Tabs.Tab key={name} value={name} ref={name === tab ? showTab : null}>
              {texts.tabs[name]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Suspense fallback={<Loading h={320} label={texts.tabs[tab]} />}>
          <Tabs.Panel value={tab}>
            <Panel tab={tab} {...props} />
          </Tabs.Panel>
        </Suspense>
      </Tabs>
    </>
  );
}

/** On a phone the list of tabs is wider than the screen. */
const showTab = (tab: HTMLElement | null): void => tab?.scrollIntoView({ block: 'nearest', inline: 'center' });

function Panel({ tab, ...props }: TabProps & { tab: Tab }) {
  switch (tab) {
    case 'overview':
      return isStarting(props.view) || isFailed(props.view) ? (
        <StartingPanel view={props.view} willOpen={props.search.open === true} change={props.change} />
      ) : (
        <OverviewTab view={props.view} />
      );
    case 'terminal':
      return <TerminalTab {...props} />;
    case 'logs':
      return <LogsTab {...props} />;
    case 'figures':
      return <FiguresTab {...props} />;
    case 'storage':
      return <StorageTab {...props} />;
    case 'ports':
      return <PortsTab {...props} />;
    case 'events':
      return <EventsTab {...props} />;
    case 'settings':
      return <SettingsTab {...props} />;
  }
}
