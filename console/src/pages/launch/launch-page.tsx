/** One page, all of it prefilled: pressing Launch at once is right. */
import { Grid, Group, Paper, Skeleton, Stack, TextInput, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import { api } from '../../app/api.ts';
import { catalogQuery, imagesQuery, volumesQuery } from '../../app/queries.ts';
import { EmptyState } from '../../parts/empty-state.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { AccessBlock } from './access-block.tsx';
import { bodyOf, choicesLike, draftOf, noScripts, offersOf, type Choices } from './draft.ts';
import classes from './launch.module.css';
import { PayBlock } from './pay-block.tsx';
import { QuotePanel } from './quote-panel.tsx';
import { readLaunchSearch, type LaunchSearch } from './search.ts';
import { StorageBlock } from './storage-block.tsx';
import { TemplateMenu } from './template-menu.tsx';
import { WhatBlock } from './what-block.tsx';

const route = getRouteApi('/launch');

/** The instance whose choices are repeated: the one of the address, else the newest. */
const lastQuery = (like: string | undefined) => ({
  queryKey: ['instances', 'last', like],
  queryFn: async () => {
    if (like !== undefined) return (await api.getInstance({ instanceId: like })).instance;
    return (await api.listInstances({ pager: { currentPage: 1, pageSize: 1 } })).instances[0] ?? null;
  },
});

export function LaunchPage() {
  const { launch } = useTexts();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const catalog = useQuery({ ...catalogQuery, refetchOnMount: 'always' });
  const images = useQuery(imagesQuery);
  const volumes = useQuery(volumesQuery);
  const last = useQuery(lastQuery(search.like));
  const [scripts, setScripts] = useState(noScripts);
  const known = useMemo(
    () =>
      catalog.data && images.data && volumes.data && last.data !== undefined
        ? { offers: offersOf(catalog.data), images: images.data, volumes: volumes.data }
        : undefined,
    [catalog.data, images.data, volumes.data, last.data],
  );
  const failed = [catalog, images, volumes, last].find(({ isError }) => isError);
  if (failed) return <Trouble error={failed.error} onRetry={() => void failed.refetch()} />;
  if (known === undefined) return <Skeleton h={480} aria-label={launch.title} />;
  const remembered = last.data ? choicesLike(last.data, known) : {};
  const draft = draftOf(search, remembered, known);
  if (draft === null) return <EmptyState {...launch.nothingOffered} />;
  const change = (over: Choices): void =>
    void navigate({ search: (now: LaunchSearch) => readLaunchSearch({ ...now, ...over }), replace: true });
  const body = bodyOf(draft, scripts, known);
  const block = { draft, known, change };
  return (
    <>
      <Group justify="space-between" mb="sm">
        <Title order={1}>{launch.title}</Title>
        <TemplateMenu
          body={body}
          onChoose={(choices, chosen) => {
            setScripts(chosen);
            void navigate({ search: readLaunchSearch({ ...choices }), replace: true });
          }}
        />
      </Group>
      <Grid gap="md" className={classes.page}>
        <Grid.Col span={{ base: 12, md: 8 }}>
          <Stack gap="md">
            <Paper withBorder p="md">
              <TextInput
                label={launch.name}
                value={draft.name}
                maxLength={128}
                onChange={({ currentTarget }) => change({ name: currentTarget.value })}
                mb="sm"
                maw={420}
              />
              <WhatBlock {...block} />
            </Paper>
            <Paper withBorder p="md">
              <PayBlock {...block} />
            </Paper>
            <Paper withBorder p="md">
              <StorageBlock {...block} />
            </Paper>
            <Paper withBorder p="md">
              <AccessBlock {...block} scripts={scripts} onScripts={setScripts} />
            </Paper>
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 4 }}>
          <QuotePanel body={body} draft={draft} change={change} />
        </Grid.Col>
      </Grid>
    </>
  );
}
