/** A few fields and one act, with the refusal beside them. */
import { Button, Group, Stack } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Dialog } from './dialog.tsx';
import { useTexts } from '../texts/provider.tsx';
import { Trouble } from './trouble.tsx';

interface FormModalProps<Output> {
  title: string;
  verb: string;
  act: () => Promise<Output>;
  onDone?: (output: Output) => void;
  onClose: () => void;
  isReady?: boolean;
  size?: string;
  children: ReactNode;
}

export function FormModal<Output>(props: FormModalProps<Output>) {
  const { title, verb, act, onDone, onClose, isReady = true, size, children } = props;
  const { common } = useTexts();
  const perform = useMutation({
    mutationFn: act,
    onSuccess: (output) => {
      onClose();
      onDone?.(output);
    },
  });
  return (
    <Dialog onClose={onClose} title={title} size={size}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady && !perform.isPending) perform.mutate();
        }}
      >
        <Stack gap="sm">
          {children}
          {perform.isError && <Trouble error={perform.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {common.cancel}
            </Button>
            <Button type="submit" loading={perform.isPending} disabled={!isReady}>
              {verb}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
