/** Fields of a settings card above the button that saves them. */
import { Button, Stack } from '@mantine/core';
import type { ReactNode } from 'react';
import { useTexts } from '../../texts/provider.tsx';

interface SaveFormProps {
  save: { mutate: (given: undefined) => void; isPending: boolean };
  /** Nothing differs, or the fields can't be saved. */
  isIdle: boolean;
  children: ReactNode;
}

export function SaveForm({ save, isIdle, children }: SaveFormProps) {
  const { common } = useTexts();
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate(undefined);
      }}
    >
      <Stack gap="sm" align="flex-start">
        {children}
        <Button type="submit" disabled={isIdle} loading={save.isPending}>
          {common.save}
        </Button>
      </Stack>
    </form>
  );
}
