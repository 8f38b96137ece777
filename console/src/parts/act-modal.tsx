/** Dialog for one act: it closes when the act was done, and else says why not. */
import { Button, Group, Stack, type ModalProps } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Dialog } from './dialog.tsx';
import { useTexts } from '../texts/provider.tsx';
import { Trouble } from './trouble.tsx';

interface ActModalProps {
  title: string;
  onClose: () => void;
  act: () => Promise<unknown>;
  /** A verb. */
  label: string;
  isDestructive?: boolean;
  isReady?: boolean;
  /** First members of query keys whose answers the act changes. */
  stale?: readonly string[];
  /** What is said when it was done. */
  done?: string;
  /** The dialog goes on, as with a link to copy. */
  staysOpen?: boolean;
  size?: ModalProps['size'];
  children?: ReactNode;
}

export function ActModal(props: ActModalProps) {
  const {
    title,
    onClose,
    act,
    label,
    isDestructive,
    isReady = true,
    stale = [],
    done,
    staysOpen,
    size,
    children,
  } = props;
  const { common } = useTexts();
  const queries = useQueryClient();
  const doing = useMutation({
    mutationFn: act,
    onSuccess: async () => {
      if (done !== undefined) notifications.show({ message: done, color: 'berth' });
      if (!staysOpen) onClose();
      await Promise.all(stale.map((root) => queries.invalidateQueries({ queryKey: [root] })));
    },
  });
  const isOver = staysOpen && doing.isSuccess;
  return (
    <Dialog onClose={onClose} title={title} size={size}>
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady && !doing.isPending && !isOver) doing.mutate();
        }}
      >
        <Stack gap="sm">
          {children}
          {doing.isError && <Trouble error={doing.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose} {...(isDestructive ? { 'data-autofocus': true } : {})}>
              {isOver ? common.close : common.cancel}
            </Button>
            {!isOver && (
              <Button
                type="submit"
                color={isDestructive ? 'red' : undefined}
                loading={doing.isPending}
                disabled={!isReady}
              >
                {label}
              </Button>
            )}
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
