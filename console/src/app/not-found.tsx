import { EmptyState } from '../parts/empty-state.tsx';
import { ButtonLink } from '../parts/links.tsx';
import { useTexts } from '../texts/provider.tsx';

/** `data`: role without which the page is not shown. */
export function NotFound({ data }: { data?: unknown }) {
  const { notFound, notAllowed } = useTexts().shell;
  const { title, text } = data === 'operator' || data === 'admin' ? notAllowed[data] : notFound;
  return (
    <EmptyState title={title} text={text}>
      <ButtonLink to="/instances">{notFound.back}</ButtonLink>
    </EmptyState>
  );
}
