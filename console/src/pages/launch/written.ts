/**
 * Scripts as written for a launch: a reload and a login of the same account keep them in this tab,
 * leaving the page drops them. The rest of a launch is in the address.
 */
import { useState } from 'react';
import { useSession } from '../../app/session.ts';
import type { Scripts } from './draft.ts';

const KEY = 'berth.scripts';

interface Kept {
  username: string;
  scripts: Scripts;
}

function keptFor(account: string): Scripts | undefined {
  // Nobody else writes it.
  const kept: Kept | null = JSON.parse(sessionStorage.getItem(KEY) ?? 'null');
  return kept?.username === account ? kept.scripts : undefined;
}

export const dropWritten = (): void => sessionStorage.removeItem(KEY);

export function useWritten(): [Scripts | undefined, (scripts: Scripts | undefined) => void] {
  const { username } = useSession();
  const [written, setWritten] = useState(() => keptFor(username));
  return [
    written,
    (scripts) => {
      setWritten(scripts);
      if (scripts) sessionStorage.setItem(KEY, JSON.stringify({ username, scripts } satisfies Kept));
      else dropWritten();
    },
  ];
}
