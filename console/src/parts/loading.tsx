import { Box, Skeleton } from '@mantine/core';
import { useTexts } from '../texts/provider.tsx';

interface LoadingProps {
  /** What is loaded. */
  label: string;
  /** Height of a block; without it there are rows of a list. */
  h?: number;
}

const ROWS = 6;

/** Stands for what is loaded, and says so. */
export function Loading({ label, h }: LoadingProps) {
  const { common } = useTexts();
  const said = { role: 'status', 'aria-busy': true, 'aria-label': common.loading(label) };
  if (h !== undefined) return <Skeleton h={h} {...said} />;
  return (
    <Box pt={36} {...said}>
      {Array.from({ length: ROWS }, (_, at) => (
        <Skeleton key={at} h={14} my={15} />
      ))}
    </Box>
  );
}
