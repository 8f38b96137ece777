/** What is in front of the API, the gateway and hosts of ports, as this browser meets it. */
import { Button, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useSearch } from '@tanstack/react-router';
import { CHECKING_PLACE } from '../../../../../src/contract/console-places.ts';
import { checkAllProxies, type ProxyFault } from '../../../../../src/contract/proxy-check.ts';
import { base } from '../../../app/base.ts';
import { Loading } from '../../../parts/loading.tsx';
import { StateWord } from '../../../parts/state-word.tsx';
import { useTexts } from '../../../texts/provider.tsx';

export function ProxyCheck() {
  const { proxies } = useTexts().health;
  const { check } = useSearch({ from: '/operator/health' });
  return (
    <>
      <Title order={2} mt="lg" mb={4}>
        {proxies.title}
      </Title>
      <Text size="sm" c="dimmed" mb="xs">
        {proxies.hint}
      </Text>
      {check === true ? (
        <Checked />
      ) : (
        // The policy of this place alone allows requests to the gateway: the page is loaded there.
        <Button component="a" variant="default" href={`${base}${CHECKING_PLACE}?check=true`}>
          {proxies.check}
        </Button>
      )}
    </>
  );
}

function Checked() {
  const { proxies } = useTexts().health;
  const say = useSentence();
  const { data } = useQuery({
    queryKey: ['proxies'],
    queryFn: () =>
      checkAllProxies({
        url: window.location.origin + base,
        fetch: (url, init) => fetch(url, init),
        openSocket: (url) => new WebSocket(url),
      }),
    staleTime: Infinity,
  });
  if (data === undefined) return <Loading h={80} label={proxies.title} />;
  return (
    <Stack gap="xs" role="status">
      {data.map(({ url, faults }) => (
        <div key={url}>
          <Text size="sm" fw={500} className="breaks">
            {url}
          </Text>
          {faults.length === 0 && <StateWord kind="good" word={proxies.well} />}
          {faults.map((fault) => (
            <Text key={fault.kind} size="sm" className="breaks">
              {say(fault)}
            </Text>
          ))}
        </div>
      ))}
    </Stack>
  );
}

function useSentence(): (fault: ProxyFault) => string {
  const { faults } = useTexts().health.proxies;
  return (fault) => {
    switch (fault.kind) {
      case 'foreign':
        return faults.foreign(fault.status);
      case 'listener':
        return faults.listener(fault.seen);
      case 'host':
        return faults.host(fault.seen);
      case 'scheme':
        return faults.scheme(fault.seen);
      case 'body':
        return faults.body(fault.status);
      case 'headers':
        return faults.headers(fault.status);
      default:
        return faults[fault.kind];
    }
  };
}
