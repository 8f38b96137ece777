/** Limits of an account or of the installation, each changed in place. */
import { Button, Group, NumberInput, Switch, TextInput } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { ActModal } from '../../parts/act-modal.tsx';
import { Loading } from '../../parts/loading.tsx';
import { ShortTable } from '../../parts/short-table.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { UsageBar } from '../../parts/usage-bar.tsx';
import { useTexts } from '../../texts/provider.tsx';

type Quota = AnswerOf<'getQuotas'>['quotas'][number];

/** Limits of GPUs of one model have the model in their name. */
const NEW_GPU: Quota = { name: 'gpus/', limit: null, from: 'built-in', used: null };

export function QuotaTable({ accountId }: { accountId?: string }) {
  const { operator } = useTexts();
  const { count } = useFormat();
  const holder = accountId === undefined ? {} : { accountId };
  const quotas = useQuery({
    queryKey: ['quotas', 'managed', accountId],
    queryFn: async () => (await api.getQuotas(holder)).quotas,
  });
  const [edited, setEdited] = useState<Quota>();
  if (quotas.isError) return <Trouble error={quotas.error} onRetry={() => void quotas.refetch()} />;
  if (quotas.data === undefined) return <Loading h={300} label={operator.quotas} />;
  const limitOf = (limit: number | null): string => (limit === null ? operator.noLimit : count(limit));
  return (
    <>
      <ShortTable
        label={operator.quotas}
        rows={quotas.data}
        keyOf={({ name }) => name}
        columns={[
          { key: 'name', title: operator.columns.what, cell: ({ name }) => operator.quotaName(name) },
          {
            key: 'used',
            title: operator.columns.used,
            cell: ({ used, limit, name }) =>
              used === null || limit === null ? (
                limitOf(limit)
              ) : (
                <UsageBar
                  used={used}
                  limit={limit}
                  label={operator.quotaName(name)}
                  text={operator.usedOf(count(used), count(limit))}
                />
              ),
          },
          { key: 'from', title: operator.columns.from, cell: ({ from }) => operator.quotaFrom(from) },
          {
            key: 'acts',
            title: '',
            align: 'right',
            cell: (quota) => (
              <Button
                variant="default"
                aria-label={operator.changeQuota(operator.quotaName(quota.name))}
                onClick={() => setEdited(quota)}
              >
                {operator.change}
              </Button>
            ),
          },
        ]}
      />
      <Group mt="xs">
        <Button variant="default" leftSection={<IconPlus size={13} />} onClick={() => setEdited(NEW_GPU)}>
          {operator.addGpuQuota}
        </Button>
      </Group>
      {edited && <QuotaModal quota={edited} accountId={accountId} onClose={() => setEdited(undefined)} />}
    </>
  );
}

interface QuotaModalProps {
  quota: Quota;
  accountId: string | undefined;
  onClose: () => void;
}

function QuotaModal({ quota, accountId, onClose }: QuotaModalProps) {
  const { operator, common } = useTexts();
  const isOwn = quota.from === (accountId === undefined ? 'installation' : 'account');
  const [model, setModel] = useState('');
  const [isInherited, setInherited] = useState(!isOwn && quota !== NEW_GPU);
  const [limit, setLimit] = useState<number | string>(quota.limit ?? 0);
  const name = quota === NEW_GPU ? `gpus/${model.trim()}` : quota.name;
  return (
    <ActModal
      title={operator.changeQuota(operator.quotaName(name))}
      label={common.save}
      isReady={(isInherited || limit !== '') && name !== 'gpus/'}
      stale={['quotas']}
      onClose={onClose}
      act={() =>
        api.setQuotas({
          ...(accountId === undefined ? {} : { accountId }),
          limits: { [name]: isInherited ? null : Number(limit) },
        })
      }
    >
      {quota === NEW_GPU && (
        <TextInput
          data-autofocus
          label={operator.gpuModel}
          value={model}
          onChange={({ currentTarget }) => setModel(currentTarget.value)}
        />
      )}
      <Switch
        label={accountId === undefined ? operator.inheritBuiltIn : operator.inheritInstallation}
        checked={isInherited}
        onChange={({ currentTarget }) => setInherited(currentTarget.checked)}
      />
      <NumberInput
        label={operator.limit}
        description={operator.limitHint}
        min={0}
        allowDecimal={false}
        disabled={isInherited}
        value={limit}
        onChange={setLimit}
      />
    </ActModal>
  );
}
