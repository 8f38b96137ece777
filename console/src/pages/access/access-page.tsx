/** Who may use the account: keys, logins, and where its events go. */
import { Tabs, Title } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { useTexts } from '../../texts/provider.tsx';
import { KeysTab } from './keys-tab.tsx';
import { accessTabs, readAccessSearch, type AccessSearch, type AccessTab } from './search.ts';
import { SessionsTab } from './sessions-tab.tsx';
import { SshTab } from './ssh-tab.tsx';
import { WebhooksTab } from './webhooks-tab.tsx';

const route = getRouteApi('/access');

export interface TabProps {
  isCreating: boolean;
  onCreating: (isCreating: boolean) => void;
}

const panels: Readonly<Record<AccessTab, (props: TabProps) => React.ReactNode>> = {
  keys: KeysTab,
  ssh: SshTab,
  sessions: SessionsTab,
  webhooks: WebhooksTab,
};

export function AccessPage() {
  const { access } = useTexts();
  const { tab = 'keys', create = false } = route.useSearch();
  const navigate = route.useNavigate();
  const change = (over: AccessSearch): void =>
    void navigate({ search: (now) => readAccessSearch({ ...now, ...over }), replace: true });
  return (
    <>
      <Title order={1} mb="sm">
        {access.title}
      </Title>
      <Tabs
        value={tab}
        onChange={(next) => void navigate({ search: readAccessSearch({ tab: next }) })}
        keepMounted={false}
      >
        <Tabs.List mb="sm">
          {accessTabs.map((one) => (
            <Tabs.Tab px={{ base: 10, sm: 'md' }} key={one} value={one}>
              {access.tabs[one]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {accessTabs.map((one) => {
          const Panel = panels[one];
          return (
            <Tabs.Panel key={one} value={one}>
              <Panel
                isCreating={create}
                onCreating={(isCreating) => change({ create: isCreating ? true : undefined })}
              />
            </Tabs.Panel>
          );
        })}
      </Tabs>
    </>
  );
}
