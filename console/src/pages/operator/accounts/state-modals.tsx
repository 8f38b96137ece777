/** Dialogs that change the state of an account: each says what follows before it does. */
import { List, NativeSelect, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { roles } from '../../../../../src/contract/statuses.ts';
import { api } from '../../../app/api.ts';
import { useFormat } from '../../../app/format.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { roleOf, type Account } from './account.ts';
import { LinkOnce, type PasswordLink } from './invite-modal.tsx';

interface AccountModalProps {
  account: Account;
  onClose: () => void;
}

export const ACCOUNT_STALE = ['accounts', 'operatorDisks', 'operatorInstances'] as const;

export function DisableModal({ account: { accountId, username }, onClose }: AccountModalProps) {
  const { accounts, operator } = useTexts();
  const [reason, setReason] = useState('');
  return (
    <ActModal
      title={accounts.disableTitle(username)}
      label={accounts.acts.disable}
      isDestructive
      stale={ACCOUNT_STALE}
      onClose={onClose}
      act={() => api.disableAccount({ accountId, reason: reason.trim() })}
    >
      <Text size="sm">{accounts.disableEnds}</Text>
      <Text size="sm" c="dimmed">
        {accounts.disableStays}
      </Text>
      <TextInput
        label={operator.reason}
        description={accounts.reasonAtLogin}
        maxLength={500}
        value={reason}
        onChange={({ currentTarget }) => setReason(currentTarget.value)}
      />
    </ActModal>
  );
}

export function EnableModal({ account: { accountId, username }, onClose }: AccountModalProps) {
  const { accounts } = useTexts();
  return (
    <ActModal
      title={accounts.enableTitle(username)}
      label={accounts.acts.enable}
      stale={ACCOUNT_STALE}
      onClose={onClose}
      act={() => api.enableAccount({ accountId })}
    >
      <Text size="sm">{accounts.enableHint}</Text>
    </ActModal>
  );
}

export function RestoreModal({ account: { accountId, username }, onClose }: AccountModalProps) {
  const { accounts } = useTexts();
  return (
    <ActModal
      title={accounts.restoreTitle(username)}
      label={accounts.acts.restore}
      stale={ACCOUNT_STALE}
      onClose={onClose}
      act={() => api.restoreAccount({ accountId })}
    >
      <Text size="sm">{accounts.restoreHint}</Text>
    </ActModal>
  );
}

/** Names what is lost, as the API counts it, and until when it can be restored. */
export function DeleteModal({ account: { accountId, username }, onClose }: AccountModalProps) {
  const { accounts, operator, common } = useTexts();
  const { dateTime } = useFormat();
  const [reason, setReason] = useState('');
  const [atMs, setAtMs] = useState<number>();
  const held = useQuery({
    queryKey: ['accounts', 'one', accountId],
    queryFn: () => api.getAccount({ accountId }),
  }).data?.holdings.counts;
  return (
    <ActModal
      title={accounts.deleteTitle(username)}
      label={accounts.acts.delete}
      isDestructive
      staysOpen
      stale={ACCOUNT_STALE}
      onClose={onClose}
      act={async () => {
        const { account } = await api.deleteAccount({ accountId, reason: reason.trim() });
        setAtMs(account.deleteAtUnixMs ?? undefined);
      }}
    >
      {atMs === undefined ? (
        <>
          <Text size="sm">{accounts.deleteNow}</Text>
          {held === undefined ? (
            <Loading h={60} label={accounts.deleteTitle(username)} />
          ) : (
            <List size="sm">
              <List.Item>{operator.instances(held.instances)}</List.Item>
              <List.Item>{accounts.volumesOf(held.volumes, common.gb(held.volumeGB))}</List.Item>
              <List.Item>{accounts.snapshotsOf(held.snapshots)}</List.Item>
              <List.Item>{accounts.imagesOf(held.images)}</List.Item>
            </List>
          )}
          <TextInput
            label={operator.reason}
            maxLength={500}
            value={reason}
            onChange={({ currentTarget }) => setReason(currentTarget.value)}
          />
        </>
      ) : (
        <Text size="sm" role="status">
          {accounts.deletedAt(dateTime(atMs))}
        </Text>
      )}
    </ActModal>
  );
}

export function RoleModal({ account: { accountId, username, role: before }, onClose }: AccountModalProps) {
  const { accounts } = useTexts();
  const [role, setRole] = useState(roleOf(before));
  return (
    <ActModal
      title={accounts.roleTitle(username)}
      label={accounts.acts.role}
      isReady={role !== before}
      stale={ACCOUNT_STALE}
      onClose={onClose}
      act={() => api.setAccountRole({ accountId, role })}
    >
      <NativeSelect
        label={accounts.columns.role}
        value={role}
        onChange={({ currentTarget }) => setRole(roleOf(currentTarget.value))}
        data={roles.map((value) => ({ value, label: accounts.roles[value] }))}
      />
      <Text size="sm" c="dimmed">
        {accounts.roleMeans[role]}
      </Text>
    </ActModal>
  );
}

export function ResetModal({ account: { accountId, username }, onClose }: AccountModalProps) {
  const { accounts } = useTexts();
  const [link, setLink] = useState<PasswordLink>();
  if (link) return <LinkOnce title={accounts.resetTitle(username)} link={link} onClose={onClose} />;
  return (
    <ActModal
      title={accounts.resetTitle(username)}
      label={accounts.makeLink}
      staysOpen
      onClose={onClose}
      act={async () => setLink(await api.resetAccountPassword({ accountId }))}
    >
      <Text size="sm">{accounts.resetHint}</Text>
    </ActModal>
  );
}

export function ResetFactorModal({ account: { accountId, username }, onClose }: AccountModalProps) {
  const { accounts } = useTexts();
  return (
    <ActModal
      title={accounts.resetFactorTitle(username)}
      label={accounts.acts.resetFactor}
      isDestructive
      stale={ACCOUNT_STALE}
      onClose={onClose}
      act={() => api.resetSecondFactor({ accountId })}
    >
      <Text size="sm">{accounts.resetFactorHint}</Text>
    </ActModal>
  );
}
