/** Retires a type, an image or a region, or offers it again; what is there stays. */
import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api } from '../../../app/api.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { Preview } from './preview.tsx';
import { CATALOG_STALE } from './queries.ts';

interface RetireModalProps {
  kind: 'type' | 'image' | 'region';
  row: { id: string; name: string; version: number; retired: boolean };
  onClose: () => void;
}

const call = (
  kind: RetireModalProps['kind'],
  id: string,
  rest: { version: number; retired: boolean; dryRun: boolean },
) => {
  if (kind === 'type') return api.retireType({ instanceTypeId: id, ...rest });
  return kind === 'image'
    ? api.retireCatalogImage({ imageId: id, ...rest })
    : api.retireRegion({ regionId: id, ...rest });
};

export function RetireModal({ kind, row: { id, name, version, retired }, onClose }: RetireModalProps) {
  const { catalog } = useTexts();
  const change = { version, retired: !retired };
  const preview = useQuery({
    queryKey: ['retirePreview', kind, id, change],
    queryFn: async () => {
      const { affected, warnings } = await call(kind, id, { ...change, dryRun: true });
      return { affected, warnings };
    },
    retry: false,
    gcTime: 0,
  });
  return (
    <ActModal
      title={retired ? catalog.offerAgainTitle(name) : catalog.retireTitle(name)}
      label={retired ? catalog.offerAgain : catalog.retire}
      isDestructive={!retired}
      stale={CATALOG_STALE}
      onClose={onClose}
      act={() => call(kind, id, { ...change, dryRun: false })}
    >
      <Text size="sm">{retired ? catalog.offerAgainHint[kind] : catalog.retireHint[kind]}</Text>
      <Preview isWaiting={false} preview={preview} />
    </ActModal>
  );
}
