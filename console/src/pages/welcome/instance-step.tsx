/** The first launch, prefilled, with the progress of its image. */
import { Button, Group, Stack, Text, Title } from '@mantine/core';
import { IconRocket } from '@tabler/icons-react';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { catalogQuery } from '../../app/queries.ts';
import { Facts } from '../../parts/facts.tsx';
import { ButtonLink } from '../../parts/links.tsx';
import { Loading } from '../../parts/loading.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { ImageState } from '../images/image-state.tsx';
import { progressingImagesQuery } from '../images/queries.ts';
import { bodyOf, draftOf, noScripts, offersOf, priceOf } from '../launch/draft.ts';

export function InstanceStep() {
  const { welcome, launch, common } = useTexts();
  const { instance } = welcome;
  const { money, size } = useFormat();
  const navigate = useNavigate();
  const catalog = useQuery({ ...catalogQuery, refetchOnMount: 'always' });
  const images = useQuery(progressingImagesQuery);
  const known = { offers: offersOf(catalog.data ?? []), images: images.data ?? [], volumes: [] };
  const draft = draftOf({}, {}, known);
  const start = useMutation({
    mutationFn: async () => {
      if (draft === null) throw new Error('nothing can be launched');
      return api.launch(bodyOf(draft, noScripts, known), draft.offer.isInStock ? {} : { waitForCapacity: true });
    },
    onSuccess: ({ instanceId }) =>
      navigate({ to: '/instances/$instanceId', params: { instanceId }, search: { open: true } }),
  });
  const failed = [catalog, images].find(({ isError }) => isError);
  if (failed) return <Trouble error={failed.error} onRetry={() => void failed.refetch()} />;
  if (catalog.data === undefined || images.data === undefined) return <Loading h={200} label={instance.title} />;
  const price = draft === null ? undefined : priceOf(draft.offer, draft.mode);
  return (
    <Stack gap="sm">
      <Title order={2}>{instance.title}</Title>
      <Text size="sm" c="dimmed">
        {draft === null ? instance.nothing : instance.hint}
      </Text>
      {draft !== null && (
        <>
          <Facts
            facts={[
              [
                instance.image,
                <Stack key="image" gap={2}>
                  <span>{draft.image.name}</span>
                  <ImageState image={draft.image} />
                </Stack>,
              ],
              [
                instance.type,
                `${draft.offer.typeName} · ${launch.cores(draft.offer.cpuCores)} · ${size(draft.offer.memoryGB)}`,
              ],
              [instance.price, price === undefined ? '–' : `${money(price)} ${common.perHour}`],
            ]}
          />
          {draft.image.state === 'Preparing' && <Text size="sm">{instance.wait}</Text>}
          {start.isError && <Trouble error={start.error} />}
          <Group>
            <Button leftSection={<IconRocket size={14} />} loading={start.isPending} onClick={() => start.mutate()}>
              {instance.launch}
            </Button>
            <ButtonLink variant="default" to="/launch">
              {instance.other}
            </ButtonLink>
          </Group>
          <Text size="xs" c="dimmed">
            {instance.free}
          </Text>
        </>
      )}
      <Group gap="xs" mt="sm">
        <Text size="sm">{instance.ssh}</Text>
        <ButtonLink variant="subtle" to="/access" search={{ tab: 'ssh', create: true }}>
          {instance.addSsh}
        </ButtonLink>
      </Group>
    </Stack>
  );
}
