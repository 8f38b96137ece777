/** Title of the document: the name of what the page shows, the place, and the product. */
import { useQuery } from '@tanstack/react-query';
import { useLocation, useParams } from '@tanstack/react-router';
import { useEffect } from 'react';
import { accountQuery } from '../pages/operator/accounts/queries.ts';
import { instanceQuery } from '../pages/instance/queries.ts';
import { nameOf } from '../pages/instances/allowed-acts.ts';
import { volumeQuery } from '../pages/volumes/queries.ts';
import { useTexts } from '../texts/provider.tsx';
import { isAt, operatorPlacesOf, placesOf } from './places.ts';
import type { Session } from './session.ts';

export function useDocumentTitle(session: Session): void {
  const texts = useTexts();
  const { shell } = texts;
  const { pathname } = useLocation();
  const name = useShownName();
  const places = [
    ...placesOf(texts),
    ...operatorPlacesOf(texts, session),
    { name: shell.launch, to: '/launch' },
    { name: shell.firstSteps, to: '/welcome' },
  ];
  const place = places.find(({ to }) => isAt(pathname, to))?.name;
  const title = [name, place, 'Berth'].filter((part) => part !== undefined).join(' · ');
  useEffect(() => {
    document.title = title;
  }, [title]);
}

/** From the answers that the pages asked for: nothing is asked for here. */
function useShownName(): string | undefined {
  const { instanceId = '', volumeId = '', accountId = '' } = useParams({ strict: false });
  const instance = useQuery({ ...instanceQuery(instanceId), enabled: false }).data?.instance;
  const volume = useQuery({ ...volumeQuery(volumeId), enabled: false }).data?.volume;
  const account = useQuery({ ...accountQuery(accountId), enabled: false }).data?.account;
  return (instance && nameOf(instance)) ?? volume?.volumeName ?? account?.username;
}
