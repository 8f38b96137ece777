/** The resource of an event, which leads to its page. */
import { Text } from '@mantine/core';
import { AnchorLink } from '../../parts/links.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { subjectOf, type PastEvent } from './history.ts';

const places = {
  apiKey: { to: '/access' },
  sshKey: { to: '/access', search: { tab: 'ssh' } },
  webhook: { to: '/access', search: { tab: 'webhooks' } },
  image: { to: '/images' },
  registry: { to: '/images', search: { tab: 'registries' } },
  billing: { to: '/billing' },
} as const;
const isPlace = (subject: string): subject is keyof typeof places => Object.hasOwn(places, subject);

export function Subject({ event, name }: { event: PastEvent; name: string }) {
  const { activity } = useTexts();
  const { kind, subjectId, data } = event;
  const subject = subjectOf(kind);
  const word = activity.nouns[subject] ?? subject;
  const shown = name === '' ? word : `${word} ${name}`;
  if (subject === 'instance')
    return (
      <AnchorLink size="sm" truncate to="/instances/$instanceId" params={{ instanceId: subjectId }}>
        {shown}
      </AnchorLink>
    );
  const volumeId = subject === 'volume' ? subjectId : subject === 'snapshot' ? data['volumeId'] : undefined;
  if (typeof volumeId === 'string')
    return (
      <AnchorLink size="sm" truncate to="/volumes/$volumeId" params={{ volumeId }}>
        {shown}
      </AnchorLink>
    );
  if (isPlace(subject))
    return (
      <AnchorLink size="sm" truncate {...places[subject]}>
        {shown}
      </AnchorLink>
    );
  return (
    <Text span size="sm" truncate>
      {shown}
    </Text>
  );
}
