/** Asks before something is lost, and names what is lost and what stays. */
import { Button, Group, List, Text } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { Dialog } from './dialog.tsx';
import { useTexts } from '../texts/provider.tsx';
import { Trouble } from './trouble.tsx';

interface ConfirmModalProps {
  title: string;
  loses: readonly string[];
  keeps?: string;
  /** Name of the button. */
  verb: string;
  act: () => Promise<unknown>;
  onDone?: () => void;
  onClose: () => void;
  /** Why it can't be done now. */
  refusal?: string;
}

export function ConfirmModal({ title, loses, keeps, verb, act, onDone, onClose, refusal }: ConfirmModalProps) {
  const { common } = useTexts();
  const perform = useMutation({
    mutationFn: act,
    onSuccess: () => {
      onClose();
      onDone?.();
    },
  });
  return (
    <Dialog onClose={onClose} title={title}>
      {refusal === undefined ? (
        <>
          <List size="sm" spacing={4}>
            {loses.map((sentence) => (
              <List.Item key={sentence}>{sentence}</List.Item>
            ))}
          </List>
          {keeps !== undefined && (
            <Text size="sm" mt="xs">
              {keeps}
            </Text>
          )}
        </>
      ) : (
        <Text size="sm">{refusal}</Text>
      )}
      {perform.isError && <Trouble error={perform.error} />}
      <Group justify="flex-end" mt="md">
        <Button variant="default" onClick={onClose} data-autofocus>
          {refusal === undefined ? common.cancel : common.close}
        </Button>
        {refusal === undefined && (
          <Button color="red" loading={perform.isPending} onClick={() => perform.mutate()}>
            {verb}
          </Button>
        )}
      </Group>
    </Dialog>
  );
}
