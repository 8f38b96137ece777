/**
 * What the installation offers: instance types and prices, images, regions, and what all instances
 * get.
 */
import { Tabs, Title } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { useSession } from '../../../app/session.ts';
import { useTexts } from '../../../texts/provider.tsx';
import { useFresh } from '../fresh.ts';
import { catalogTabs, readCatalogSearch, type CatalogSearch } from '../search.ts';
import { ImagesTab } from './images-tab.tsx';
import { InstallationTab } from './installation-tab.tsx';
import { PricesTab } from './prices-tab.tsx';
import { RegionsTab } from './regions-tab.tsx';
import { TypesTab } from './types-tab.tsx';

const route = getRouteApi('/operator/catalog');

export function CatalogPage() {
  const { catalog } = useTexts();
  const { isAdmin } = useSession();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  useFresh('types', 'managedImages', 'managedRegions', 'prices');
  const change = (over: CatalogSearch, replace = true): void =>
    void navigate({ search: (now) => readCatalogSearch({ ...now, ...over }), replace, resetScroll: false });
  // The environment, quotas and policies of the installation are for administrators.
  const shown = catalogTabs.filter((tab) => isAdmin || tab !== 'installation');
  return (
    <>
      <Title order={1} mb="sm">
        {catalog.title}
      </Title>
      <Tabs
        value={search.tab ?? 'types'}
        onChange={(tab) => void navigate({ search: readCatalogSearch({ tab }) })}
        keepMounted={false}
      >
        <Tabs.List mb="sm">
          {shown.map((tab) => (
            <Tabs.Tab key={tab} value={tab}>
              {catalog.tabs[tab]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="types">
          <TypesTab search={search} change={change} />
        </Tabs.Panel>
        <Tabs.Panel value="images">
          <ImagesTab search={search} change={change} />
        </Tabs.Panel>
        <Tabs.Panel value="regions">
          <RegionsTab />
        </Tabs.Panel>
        <Tabs.Panel value="prices">
          <PricesTab typeId={search.type} onType={(type) => change({ type })} />
        </Tabs.Panel>
        {isAdmin && (
          <Tabs.Panel value="installation">
            <InstallationTab />
          </Tabs.Panel>
        )}
      </Tabs>
    </>
  );
}
