import type { LinkProps } from '@tanstack/react-router';
import { ApiError } from '../../../src/contract/client.ts';
import { EmptyState } from './empty-state.tsx';
import { ButtonLink } from './links.tsx';

export const isGone = (error: unknown): boolean => error instanceof ApiError && error.status === 404;

interface GoneProps {
  title: string;
  text: string;
  /** The list that it would be in. */
  to: LinkProps['to'];
  list: string;
}

/** The address names what is not there. */
export function Gone({ to, list, ...words }: GoneProps) {
  return (
    <EmptyState {...words}>
      <ButtonLink to={to} variant="default">
        {list}
      </ButtonLink>
    </EmptyState>
  );
}
