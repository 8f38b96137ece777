/** Adds a port to the gateway's list, and sets which ports the host forwards. */
import { Button, Group, NumberInput, TagsInput, Text } from '@mantine/core';
import { useState } from 'react';
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';
import { api } from '../../app/api.ts';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import type { ListedPort } from './port-row.tsx';
import { useAppliesAt, useChange } from './use-change.ts';

const SSH = 22;
const MOST = 65_535;
const MOST_PORTS = 32;

interface NewPortProps {
  instanceId: string;
  /** The list of the API leaves out ports without a setting. */
  onAdd: (port: ListedPort) => void;
}

export function NewPort({ instanceId, onAdd }: NewPortProps) {
  const { ports: texts } = useTexts().instance;
  const [port, setPort] = useState<number | string>('');
  const add = useChange(
    (number: number) => api.setPortAccess({ instanceId, port: number, access: 'owner' }),
    () => '',
  );
  const number = Number(port);
  const take = (answer: { port: ListedPort }): void => {
    onAdd(answer.port);
    setPort('');
  };
  return (
    <Group gap="xs" align="flex-end">
      <NumberInput
        size="xs"
        w={150}
        label={texts.newPort}
        placeholder="8080"
        min={1}
        max={MOST}
        allowDecimal={false}
        value={port}
        onChange={setPort}
      />
      <Button
        variant="default"
        disabled={!(number >= 1 && number <= MOST && number !== SSH)}
        loading={add.isPending}
        onClick={() => add.mutate(number, { onSuccess: take })}
      >
        {texts.add}
      </Button>
    </Group>
  );
}

const isPort = (text: string): boolean => /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= MOST;

export function ForwardedPorts({ instance }: { instance: InstanceObject }) {
  const { instance: page, common } = useTexts();
  const { ports: texts } = page;
  const now = instance.instanceSpecInfo.nodePorts.map(({ port }) => port).filter((port) => port !== SSH);
  const coming = instance.pendingChanges?.nodePorts?.filter((port) => port !== SSH) ?? null;
  const [draft, setDraft] = useState<string[] | null>(null);
  const appliesAt = useAppliesAt();
  const save = useChange(
    (nodePorts: number[]) => api.updateInstance({ instanceId: idOf(instance), nodePorts }),
    appliesAt,
  );
  return (
    <div>
      <TagsInput
        size="xs"
        maw={420}
        label={texts.forwarded}
        description={texts.forwardedHint}
        value={draft ?? (coming ?? now).map(String)}
        onChange={(values) => setDraft(values.filter((text) => isPort(text) && Number(text) !== SSH))}
        splitChars={[',', ' ']}
        maxTags={MOST_PORTS}
      />
      {coming !== null && draft === null && (
        <Text size="xs" c="dimmed" mt={4}>
          {texts.forwardedLater}
        </Text>
      )}
      {draft !== null && (
        <Group gap="xs" mt="xs">
          <Button
            loading={save.isPending}
            onClick={() => save.mutate(draft.map(Number), { onSuccess: () => setDraft(null) })}
          >
            {common.save}
          </Button>
          <Button variant="default" onClick={() => setDraft(null)}>
            {common.cancel}
          </Button>
        </Group>
      )}
    </div>
  );
}
