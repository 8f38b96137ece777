import { Paper, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';

interface SettingsCardProps {
  title: string;
  hint?: string;
  className?: string | undefined;
  children: ReactNode;
}

export const SettingsCard = ({ title, hint, className, children }: SettingsCardProps) => (
  <Paper withBorder p="md" component="section" aria-label={title} {...(className === undefined ? {} : { className })}>
    <Title order={2} mb={4}>
      {title}
    </Title>
    {hint !== undefined && (
      <Text size="xs" c="dimmed" mb="xs">
        {hint}
      </Text>
    )}
    {children}
  </Paper>
);
