/** What somebody should know before the launch. */
import { Alert, Text } from '@mantine/core';
import type { ReactNode } from 'react';

export const Note = ({ children }: { children: ReactNode }) => (
  <Alert color="yellow" variant="light" role="status">
    <Text size="sm" component="div">
      {children}
    </Text>
  </Alert>
);
