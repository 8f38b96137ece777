/** Whether others can come in, as far as this page and the API can tell; and what to set. */
import { Button, Code, Group, NativeSelect, Stack, Text, TextInput, Title } from '@mantine/core';
import { IconRefresh } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { regionsQuery } from '../../app/queries.ts';
import { CopyButton } from '../../parts/copy-button.tsx';
import { StateWord } from '../../parts/state-word.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import {
  isBad,
  isGood,
  isLoopback,
  settingsFor,
  verdictOfGateway,
  verdictOfPage,
  verdictOfSsh,
  ways,
  type Verdict,
  type Way,
} from './checks.ts';

const EXAMPLE = 'gpu.example.org';

export function AddressesStep() {
  const { addresses } = useTexts().welcome;
  const regions = useQuery({ ...regionsQuery, refetchOnMount: 'always' });
  const { protocol, hostname, origin } = window.location;
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Title order={2}>{addresses.title}</Title>
        <Button
          variant="default"
          leftSection={<IconRefresh size={14} />}
          loading={regions.isFetching}
          onClick={() => void regions.refetch()}
        >
          {addresses.check}
        </Button>
      </Group>
      <Text size="sm" c="dimmed">
        {addresses.hint}
      </Text>
      <Stack gap="xs" role="list" aria-label={addresses.checks}>
        <Check name={addresses.page} value={origin} verdict={verdictOfPage({ protocol, hostname })} />
        {(regions.data ?? []).map(({ regionId, name, domain, sshAddress, engine }) => (
          <div key={regionId} style={{ display: 'contents' }}>
            <Check name={addresses.gateway(name)} value={domain} verdict={verdictOfGateway(domain, hostname)} />
            <Check name={addresses.ssh(name)} value={sshAddress} verdict={verdictOfSsh(sshAddress)} />
            <Check
              name={addresses.engine(name)}
              value={engine.text}
              verdict={engine.answers ? 'engineOk' : 'engineBad'}
            />
          </div>
        ))}
      </Stack>
      {regions.isError && <Trouble error={regions.error} onRetry={() => void regions.refetch()} />}
      <Configure />
    </Stack>
  );
}

function Check({ name, value, verdict }: { name: string; value: string; verdict: Verdict }) {
  const { verdicts } = useTexts().welcome.addresses;
  return (
    <div role="listitem">
      <Group gap="xs">
        <StateWord kind={isGood(verdict) ? 'good' : isBad(verdict) ? 'bad' : 'warns'} word={name} />
        <Text span size="xs" ff="monospace" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
          {value}
        </Text>
      </Group>
      <Text size="sm" pl={20}>
        {verdicts[verdict]}
      </Text>
    </div>
  );
}

function Configure() {
  const { addresses } = useTexts().welcome;
  const [way, setWay] = useState<Way>(window.location.protocol === 'https:' ? 'proxy' : 'plain');
  const [address, setAddress] = useState(isLoopback(window.location.hostname) ? '' : window.location.hostname);
  const text = settingsFor(way, address.trim() || EXAMPLE);
  return (
    <Stack gap="xs" mt="sm">
      <Title order={3}>{addresses.configure}</Title>
      <Text size="sm" c="dimmed">
        {addresses.configureHint}
      </Text>
      <Group gap="sm" grow align="flex-end" preventGrowOverflow={false}>
        <TextInput
          label={addresses.address}
          placeholder={EXAMPLE}
          value={address}
          spellCheck={false}
          onChange={({ currentTarget }) => setAddress(currentTarget.value)}
        />
        <NativeSelect
          size="sm"
          label={addresses.way}
          value={way}
          onChange={({ currentTarget }) => setWay(ways.find((one) => one === currentTarget.value) ?? 'plain')}
          data={ways.map((value) => ({ value, label: addresses.ways[value] }))}
        />
      </Group>
      <Group align="flex-start" wrap="nowrap" gap={4}>
        <Code block flex={1} style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
          {text}
        </Code>
        <CopyButton value={text} label={addresses.copy} />
      </Group>
    </Stack>
  );
}
