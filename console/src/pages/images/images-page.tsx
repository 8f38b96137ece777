/** Images of the operator and of the account, and credentials of registries. */
import { Tabs, Title } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { useTexts } from '../../texts/provider.tsx';
import { ImagesTab } from './images-tab.tsx';
import { RegistriesTab } from './registries-tab.tsx';
import { readImagesSearch } from './search.ts';

const route = getRouteApi('/images');

export function ImagesPage() {
  const { images } = useTexts();
  const { tab = 'images', create = false } = route.useSearch();
  const navigate = route.useNavigate();
  const onCreating = (isCreating: boolean): void =>
    void navigate({
      search: (now) => readImagesSearch({ ...now, create: isCreating ? true : undefined }),
      replace: true,
    });
  return (
    <>
      <Title order={1} mb="sm">
        {images.title}
      </Title>
      <Tabs
        value={tab}
        onChange={(next) => void navigate({ search: readImagesSearch({ tab: next }) })}
        keepMounted={false}
      >
        <Tabs.List mb="sm">
          <Tabs.Tab px={{ base: 10, sm: 'md' }} value="images">
            {images.tabs.images}
          </Tabs.Tab>
          <Tabs.Tab px={{ base: 10, sm: 'md' }} value="registries">
            {images.tabs.registries}
          </Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="images">
          <ImagesTab isCreating={create} onCreating={onCreating} />
        </Tabs.Panel>
        <Tabs.Panel value="registries">
          <RegistriesTab isCreating={create} onCreating={onCreating} />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}
