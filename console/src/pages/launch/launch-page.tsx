/** One page, all of it prefilled: pressing Launch at once is right. */
import { Box, Grid, Group, Paper, Stack, TextInput, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useMemo } from 'react';
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';
import { catalogQuery, imagesQuery, volumesQuery } from '../../app/queries.ts';
import { EmptyState } from '../../parts/empty-state.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { Loading } from '../../parts/loading.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { AccessBlock } from './access-block.tsx';
import { bodyOf, choicesLike, choicesOfBody, draftOf, noScripts, offersOf, type Choices } from './draft.ts';
import classes from './launch.module.css';
import { Note } from './note.tsx';
import { PayBlock } from './pay-block.tsx';
import { likedQuery, newestQuery, templatesQuery } from './queries.ts';
import { QuotePanel } from './quote-panel.tsx';
import { readLaunchSearch, type LaunchSearch } from './search.ts';
import { StorageBlock } from './storage-block.tsx';
import { TemplateMenu } from './template-menu.tsx';
import { WhatBlock } from './what-block.tsx';
import { useWritten } from './written.ts';

const route = getRouteApi('/launch');

export function LaunchPage() {
  const { launch } = useTexts();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const catalog = useQuery({ ...catalogQuery, refetchOnMount: 'always' });
  const images = useQuery(imagesQuery);
  const volumes = useQuery(volumesQuery);
  const newest = useQuery(newestQuery);
  const liked = useQuery(likedQuery(search.like));
  const isTemplated = search.template !== undefined;
  const templates = useQuery({ ...templatesQuery, enabled: isTemplated });
  const [written, setWritten] = useWritten();
  const known = useMemo(
    () =>
      catalog.data && images.data && volumes.data
        ? { offers: offersOf(catalog.data), images: images.data, volumes: volumes.data }
        : undefined,
    [catalog.data, images.data, volumes.data],
  );
  const needed = [catalog, images, volumes, newest, liked, ...(isTemplated ? [templates] : [])];
  const failed = needed.find(({ isError }) => isError);
  if (failed) return <Trouble error={failed.error} onRetry={() => void failed.refetch()} />;
  const isReading = isTemplated && templates.data === undefined;
  if (known === undefined || newest.data === undefined || liked.data === undefined || isReading)
    return <Loading h={480} label={launch.title} />;
  const choicesOf = (instance: InstanceObject | null): Choices => (instance ? choicesLike(instance, known) : {});
  const template = templates.data?.find(({ name }) => name === search.template);
  const kept = template && choicesOfBody(template.launch);
  const { instance: likedInstance = null, runImageCommand: imageCommand = false } = liked.data ?? {};
  const choices = { ...choicesOf(likedInstance), imageCommand, ...kept?.choices, ...search };
  const scripts = written ?? kept?.scripts ?? noScripts;
  const draft = draftOf(choices, choicesOf(newest.data), known);
  if (draft === null) return <EmptyState {...launch.nothingOffered} />;
  const change = (over: LaunchSearch): void =>
    void navigate({ search: (now: LaunchSearch) => readLaunchSearch({ ...now, ...over }), replace: true });
  const body = bodyOf(draft, scripts, known);
  const notes = [
    ...(likedInstance ? [launch.notCopied(likedInstance.instanceSpecInfo.name)] : []),
    ...(search.like !== undefined && !likedInstance ? [launch.noSuchInstance(search.like)] : []),
    ...(search.template !== undefined && !template ? [launch.noSuchTemplate(search.template)] : []),
  ];
  const block = { draft, known, change };
  return (
    <>
      <Group justify="space-between" mb="sm">
        <Title order={1}>{launch.title}</Title>
        <TemplateMenu
          body={body}
          onChoose={({ name, launch: chosen }) => {
            setWritten(undefined);
            void navigate({
              search: readLaunchSearch({ ...choicesOfBody(chosen).choices, template: name }),
              replace: true,
            });
          }}
          onDeleted={(name) => {
            if (name !== search.template) return;
            setWritten(scripts);
            change({ ...choices, template: undefined });
          }}
        />
      </Group>
      {notes.map((note) => (
        <Box key={note} mb="sm">
          <Note>{note}</Note>
        </Box>
      ))}
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
              <AccessBlock {...block} scripts={scripts} onScripts={setWritten} />
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
