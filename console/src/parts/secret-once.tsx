/** A secret that no later answer repeats: shown until the person has it. */
import { Alert, Button, Code, Group, Stack, Text } from '@mantine/core';
import { IconCheck, IconCopy, IconKey } from '@tabler/icons-react';
import { useState } from 'react';
import { useTexts } from '../texts/provider.tsx';
import { copyText } from './copy-button.tsx';
import { Dialog } from './dialog.tsx';

interface SecretOnceProps {
  title: string;
  secret: string;
  hint: string;
  /** How it is used, to copy as well. */
  example?: string;
  onClose: () => void;
}

export function SecretOnce({ title, secret, hint, example, onClose }: SecretOnceProps) {
  const { common } = useTexts();
  const [isCopied, setCopied] = useState(false);
  const copy = (): void => void copyText(secret).then(() => setCopied(true));
  return (
    <Dialog onClose={onClose} title={title} size="lg" closeOnClickOutside={false} closeOnEscape={isCopied}>
      <Stack gap="sm">
        <Alert variant="light" color="yellow" icon={<IconKey size={18} />}>
          <Text size="sm">{hint}</Text>
        </Alert>
        <Code block style={{ overflowWrap: 'anywhere', whiteSpace: 'pre-wrap' }}>
          {secret}
        </Code>
        {example !== undefined && (
          <Code block style={{ overflowWrap: 'anywhere', whiteSpace: 'pre-wrap' }}>
            {example}
          </Code>
        )}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {common.close}
          </Button>
          <Button
            data-autofocus
            leftSection={isCopied ? <IconCheck size={14} /> : <IconCopy size={14} />}
            onClick={copy}
            aria-live="polite"
          >
            {isCopied ? common.copied : common.copy}
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
