import { Stack, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';

/** What a place is for while it is empty, and the act that fills it. */
export function EmptyState({ title, text, children }: { title: string; text: ReactNode; children?: ReactNode }) {
  return (
    <Stack align="center" gap="xs" py={64} px="md" ta="center">
      <Title order={2}>{title}</Title>
      <Text c="dimmed" maw={520}>
        {text}
      </Text>
      {children}
    </Stack>
  );
}
