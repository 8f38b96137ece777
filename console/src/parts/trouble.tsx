/** What went wrong in the words of the API, with the id of the request to copy. */
import { Alert, Button, Group, Text } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import type { ErrorComponentProps } from '@tanstack/react-router';
import { ApiError } from '../../../src/contract/client.ts';
import { loginAddress } from '../app/session.ts';
import { isFailedLoad, reloadIfServed } from '../app/stale-files.ts';
import type { Texts } from '../texts/en/index.ts';
import { useTexts } from '../texts/provider.tsx';
import { CopyButton } from './copy-button.tsx';

/** The API's texts begin in lower case. */
export const asSentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;

export function sentenceOf(error: unknown, { common }: Texts): string {
  if (isFailedLoad(error)) return common.unreachable;
  if (!(error instanceof ApiError)) return common.unknownError;
  if (error.code === 'unreachable') return common.unreachable;
  return `${common.refusals[error.code] ?? ''}${asSentence(error.message)}`;
}

interface TroubleProps {
  error: unknown;
  onRetry?: () => void;
}

export function Trouble({ error, onRetry }: TroubleProps) {
  const texts = useTexts();
  const requestId = error instanceof ApiError ? error.requestId : '';
  return (
    <Alert color="red" variant="light" icon={<IconAlertTriangle size={18} />} role="alert">
      <Text size="sm">{sentenceOf(error, texts)}</Text>
      <Group gap="xs" mt={4}>
        {onRetry && (
          <Button variant="default" onClick={onRetry}>
            {texts.common.retry}
          </Button>
        )}
        {error instanceof ApiError && error.code === 'not_logged_in' && (
          // Another tab: what is typed here stays.
          <Button component="a" variant="default" href={loginAddress()} target="_blank">
            {texts.common.logIn}
          </Button>
        )}
        {requestId !== '' && (
          <Group gap={2}>
            <Text size="xs" c="dimmed" ff="monospace">
              {texts.common.requestId(requestId)}
            </Text>
            <CopyButton value={requestId} />
          </Group>
        )}
      </Group>
    </Alert>
  );
}

/** A page that could not be shown. A page asks for a file that failed to load only once. */
export const Failed = ({ error, reset }: ErrorComponentProps) => (
  <Trouble error={error} onRetry={isFailedLoad(error) ? () => void reloadIfServed() : reset} />
);
