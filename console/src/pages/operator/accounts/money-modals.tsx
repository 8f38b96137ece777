/** Money that an administrator gives, takes back, and allows to be missing. */
import { Group, NativeSelect, NumberInput, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { meters } from '../../../../../src/contract/statuses.ts';
import { api } from '../../../app/api.ts';
import { catalogQuery } from '../../../app/queries.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import type { Account } from './account.ts';

interface MoneyModalProps {
  account: Account;
  onClose: () => void;
}

const kinds = ['cash', 'voucher', 'credit'] as const;
const STALE = ['accounts', 'accountMoney', 'billing'];

export function CreditModal({ account: { username }, onClose }: MoneyModalProps) {
  const { accounts, operator, billing } = useTexts();
  const [amount, setAmount] = useState<number | string>('');
  const [kind, setKind] = useState<(typeof kinds)[number]>('cash');
  const [reason, setReason] = useState('');
  const [expires, setExpires] = useState('');
  const [meter, setMeter] = useState('');
  const [typeId, setTypeId] = useState('');
  const families = useQuery(catalogQuery).data ?? [];
  const types = families.flatMap(({ regionInfos }) =>
    regionInfos.flatMap(({ regionName, instanceTypeInfos }) =>
      instanceTypeInfos.map((type) => ({
        value: type.instanceTypeId,
        label: `${type.instanceTypeName} · ${regionName}`,
      })),
    ),
  );
  const known = meters.find((one) => one === meter);
  const scope = {
    ...(known === undefined ? {} : { meter: known }),
    ...(typeId === '' ? {} : { instanceTypeId: typeId }),
  };
  const expiresAt = expires === '' ? Number.NaN : new Date(expires).getTime();
  return (
    <ActModal
      title={accounts.creditTitle(username)}
      label={accounts.give}
      isReady={amount !== '' && Number(amount) > 0 && reason.trim() !== ''}
      stale={STALE}
      onClose={onClose}
      done={accounts.given(username)}
      act={() =>
        api.creditAccount({
          username,
          amount: Number(amount),
          kind,
          reason: reason.trim(),
          ...(kind !== 'cash' && Number.isFinite(expiresAt) ? { expiresAt } : {}),
          ...(kind === 'voucher' && Object.keys(scope).length > 0 ? { scope } : {}),
        })
      }
    >
      <Group grow align="flex-start">
        <NumberInput
          data-autofocus
          label={accounts.amount}
          prefix="$"
          min={0}
          decimalScale={6}
          value={amount}
          onChange={setAmount}
        />
        <NativeSelect
          label={accounts.kind}
          value={kind}
          onChange={({ currentTarget }) => setKind(kinds.find((one) => one === currentTarget.value) ?? 'cash')}
          data={kinds.map((value) => ({ value, label: billing.sourceName(value) }))}
        />
      </Group>
      <Text size="xs" c="dimmed">
        {accounts.kindMeans[kind]}
      </Text>
      {kind !== 'cash' && (
        <TextInput
          type="datetime-local"
          label={accounts.expires}
          description={accounts.expiresHint}
          value={expires}
          onChange={({ currentTarget }) => setExpires(currentTarget.value)}
        />
      )}
      {kind === 'voucher' && (
        <Group grow align="flex-start">
          <NativeSelect
            label={accounts.scopeMeter}
            value={meter}
            onChange={({ currentTarget }) => setMeter(currentTarget.value)}
            data={[
              { value: '', label: billing.everything },
              ...meters.map((value) => ({ value, label: billing.meterName(value) })),
            ]}
          />
          <NativeSelect
            label={accounts.scopeType}
            value={typeId}
            onChange={({ currentTarget }) => setTypeId(currentTarget.value)}
            data={[{ value: '', label: billing.everything }, ...types]}
          />
        </Group>
      )}
      <TextInput
        label={operator.reason}
        description={operator.reasonHint}
        maxLength={500}
        value={reason}
        onChange={({ currentTarget }) => setReason(currentTarget.value)}
      />
    </ActModal>
  );
}

export function OverdraftModal({ account: { username, overdraft }, onClose }: MoneyModalProps) {
  const { accounts, common } = useTexts();
  const [amount, setAmount] = useState<number | string>(overdraft);
  return (
    <ActModal
      title={accounts.overdraftTitle(username)}
      label={common.save}
      isReady={amount !== ''}
      stale={STALE}
      onClose={onClose}
      act={() => api.setOverdraft({ username, overdraft: Number(amount) })}
    >
      <NumberInput
        data-autofocus
        label={accounts.overdraft}
        description={accounts.overdraftHint}
        prefix="$"
        min={0}
        decimalScale={6}
        value={amount}
        onChange={setAmount}
      />
    </ActModal>
  );
}

/** Takes back what is left of a gift, or a deposit. */
export function ReverseModal({ entryId, onClose }: { entryId: string; onClose: () => void }) {
  const { accounts, operator } = useTexts();
  const [reason, setReason] = useState('');
  return (
    <ActModal
      title={accounts.reverseTitle}
      label={accounts.reverse}
      isDestructive
      isReady={reason.trim() !== ''}
      stale={STALE}
      onClose={onClose}
      act={() => api.reverseCredit({ entryId, reason: reason.trim() })}
    >
      <Text size="sm">{accounts.reverseHint}</Text>
      <TextInput
        label={operator.reason}
        description={operator.reasonHint}
        maxLength={500}
        value={reason}
        onChange={({ currentTarget }) => setReason(currentTarget.value)}
      />
    </ActModal>
  );
}
