/** Invites a person: an account, and a link to copy where its password is set. */
import { Group, NativeSelect, NumberInput, TextInput } from '@mantine/core';
import { useState } from 'react';
import { roles } from '../../../../../src/contract/statuses.ts';
import { api } from '../../../app/api.ts';
import { useFormat } from '../../../app/format.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { SecretOnce } from '../../../parts/secret-once.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { roleOf } from './account.ts';

export type PasswordLink = Awaited<ReturnType<typeof api.inviteAccount>>;

export function InviteModal({ onClose }: { onClose: () => void }) {
  const { accounts } = useTexts();
  const [username, setUsername] = useState('');
  const [email, setEmail] = useState('');
  const [role, setRole] = useState('user');
  const [balance, setBalance] = useState<number | string>('');
  const [link, setLink] = useState<PasswordLink>();
  if (link) return <LinkOnce title={accounts.invited(username)} link={link} onClose={onClose} />;
  return (
    <ActModal
      title={accounts.invite}
      label={accounts.makeLink}
      isReady={username !== ''}
      stale={['accounts']}
      staysOpen
      onClose={onClose}
      act={async () =>
        setLink(
          await api.inviteAccount({
            username: username.trim(),
            ...(email.trim() === '' ? {} : { email: email.trim() }),
            role: roleOf(role),
            ...(balance === '' ? {} : { balance: Number(balance) }),
          }),
        )
      }
    >
      <TextInput
        data-autofocus
        label={accounts.username}
        description={accounts.usernameHint}
        value={username}
        onChange={({ currentTarget }) => setUsername(currentTarget.value.toLowerCase())}
      />
      <TextInput
        label={accounts.columns.email}
        type="email"
        value={email}
        onChange={({ currentTarget }) => setEmail(currentTarget.value)}
      />
      <Group grow align="flex-start">
        <NativeSelect
          label={accounts.columns.role}
          description={accounts.roleHint}
          value={role}
          onChange={({ currentTarget }) => setRole(currentTarget.value)}
          data={roles.map((value) => ({ value, label: accounts.roles[value] }))}
        />
        <NumberInput
          label={accounts.firstBalance}
          description={accounts.firstBalanceHint}
          prefix="$"
          min={0}
          value={balance}
          onChange={setBalance}
        />
      </Group>
    </ActModal>
  );
}

/** The link works once; nothing repeats it. */
export function LinkOnce({ title, link, onClose }: { title: string; link: PasswordLink; onClose: () => void }) {
  const { accounts } = useTexts();
  const { dateTime } = useFormat();
  return (
    <SecretOnce
      title={title}
      secret={link.url}
      hint={accounts.linkHint(dateTime(link.expiresAtUnixMs))}
      onClose={onClose}
    />
  );
}
