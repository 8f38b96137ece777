/** Changes the password; afterwards the person logs in anew. */
import { Button, PasswordInput, Stack, Text } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { leadToLogin, useSession } from '../../app/session.ts';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';

const SHORTEST = 8;

/** `onChanged`: by default the login page, which leads back here. */
export function PasswordForm({ onChanged = leadToLogin }: { onChanged?: () => void }) {
  const { settings } = useTexts();
  const texts = settings.password;
  const { username } = useSession();
  const [oldPassword, setOld] = useState('');
  const [newPassword, setNew] = useState('');
  const change = useMutation({
    mutationFn: () => api.changePassword({ oldPassword, newPassword }),
    onSuccess: onChanged,
  });
  const isReady = oldPassword !== '' && newPassword.length >= SHORTEST;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (isReady) change.mutate();
      }}
    >
      <Stack gap="sm">
        <Text size="sm" c="dimmed">
          {texts.hint}
        </Text>
        {/* Managers of passwords store the new one under this name. */}
        <input type="text" name="username" autoComplete="username" value={username} readOnly hidden />
        <PasswordInput
          label={texts.old}
          autoComplete="current-password"
          value={oldPassword}
          onChange={({ currentTarget }) => setOld(currentTarget.value)}
        />
        <PasswordInput
          label={texts.new}
          description={texts.newHint}
          autoComplete="new-password"
          minLength={SHORTEST}
          value={newPassword}
          onChange={({ currentTarget }) => setNew(currentTarget.value)}
        />
        {change.isError && <Trouble error={change.error} />}
        <Button type="submit" disabled={!isReady} loading={change.isPending} w="fit-content">
          {texts.change}
        </Button>
      </Stack>
    </form>
  );
}
