import { Alert } from '@mantine/core';
import { IconPlugConnectedX } from '@tabler/icons-react';
import { useFormat } from '../app/format.ts';
import { useLostSince } from '../app/live.ts';
import { useNow } from '../app/now.ts';
import { useTexts } from '../texts/provider.tsx';

/** A short break says nothing: the connection comes back within it. */
const QUIET_MS = 3_000;

export function LostBanner() {
  const { shell } = useTexts();
  const { ago } = useFormat();
  const lostAtMs = useLostSince();
  const nowMs = useNow();
  if (lostAtMs === null || nowMs - lostAtMs < QUIET_MS) return null;
  return (
    <Alert color="yellow" variant="light" mb="sm" py={6} icon={<IconPlugConnectedX size={16} />} role="status">
      {shell.lost(ago(lostAtMs, nowMs))}
    </Alert>
  );
}
