/**
 * Answers about other accounts have no events: they are asked for again when the page is looked at.
 */
import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';

export function useFresh(...roots: readonly string[]): void {
  const queries = useQueryClient();
  const asked = roots.join(' ');
  useEffect(() => {
    const refresh = (): void => {
      if (document.hidden) return;
      for (const root of asked.split(' ')) void queries.invalidateQueries({ queryKey: [root] });
    };
    refresh();
    document.addEventListener('visibilitychange', refresh);
    return () => document.removeEventListener('visibilitychange', refresh);
  }, [queries, asked]);
}
