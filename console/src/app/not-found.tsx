import { EmptyState } from '../parts/empty-state.tsx';
import { ButtonLink } from '../parts/links.tsx';
import { useTexts } from '../texts/provider.tsx';

export function NotFound() {
  const { title, text, back } = useTexts().shell.notFound;
  return (
    <EmptyState title={title} text={text}>
      <ButtonLink to="/instances">{back}</ButtonLink>
    </EmptyState>
  );
}
