/** What a change would do, as the API says before it is made. */
import { Alert, List, Text } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Loading } from '../../../parts/loading.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';

interface Previewed {
  affected?: { accounts: number; running: number; stopped: number; atOtherPrice: number };
  warnings: readonly string[];
}

interface PreviewProps {
  /** Nothing is changed yet. */
  isWaiting: boolean;
  preview: UseQueryResult<Previewed | null>;
  children?: ReactNode;
}

export function Preview({ isWaiting, preview, children }: PreviewProps) {
  const { catalog } = useTexts();
  if (isWaiting)
    return (
      <Text size="xs" c="dimmed">
        {catalog.nothingChanged}
      </Text>
    );
  if (preview.isError) return <Trouble error={preview.error} />;
  if (!preview.data) return <Loading h={54} label={catalog.preview} />;
  const { affected, warnings } = preview.data;
  return (
    <div aria-live="polite">
      <Text size="sm" fw={600}>
        {catalog.preview}
      </Text>
      {affected && (
        <Text size="sm">
          {affected.running + affected.stopped === 0
            ? catalog.affectsNobody
            : catalog.affects(affected.accounts, affected.running, affected.stopped)}
          {affected.atOtherPrice > 0 && ` ${catalog.keepPrice(affected.atOtherPrice)}`}
        </Text>
      )}
      {children !== undefined && (
        <Text size="xs" c="dimmed">
          {children}
        </Text>
      )}
      {warnings.length > 0 && (
        <Alert color="yellow" variant="light" mt={6} py={6}>
          <List size="sm">
            {warnings.map((warning) => (
              <List.Item key={warning}>{warning}</List.Item>
            ))}
          </List>
        </Alert>
      )}
    </div>
  );
}
