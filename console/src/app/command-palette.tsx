/** Every page, instance, volume, act and command, by a few letters. */
import { Box, Group, Kbd, ScrollArea, Text, TextInput, UnstyledButton } from '@mantine/core';
import { IconBolt, IconPlus, IconSearch, IconServer, IconDatabase, type Icon } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useEffect, useState, type KeyboardEvent } from 'react';
import { Dialog } from '../parts/dialog.tsx';
import type { InstanceObject } from '../../../src/contract/compute/instance.ts';
import { useAct, useOpen } from '../pages/instances/acts.ts';
import { idOf, nameOf } from '../pages/instances/allowed-acts.ts';
import { TerminateDialog } from '../pages/instances/terminate-dialog.tsx';
import { useTexts } from '../texts/provider.tsx';
import { api } from './api.ts';
import { actsOn, readActs, type PaletteAct } from './palette-acts.ts';
import { operatorPlacesOf, placesOf } from './places.ts';
import { volumesQuery } from './queries.ts';
import { useSession } from './session.ts';
import classes from './shell.module.css';

interface Found {
  key: string;
  group: string;
  name: string;
  hint?: string;
  icon: Icon;
  go: () => void;
}

const SHOWN = 8;

/** Keys of an input method choose its words. Safari ends the composition before its last Enter. */
const SAFARI_COMPOSES = 229;
const isComposing = ({ nativeEvent, keyCode }: KeyboardEvent): boolean =>
  nativeEvent.isComposing || keyCode === SAFARI_COMPOSES;

export function CommandPalette({ onClose }: { onClose: () => void }) {
  const texts = useTexts();
  const { shell } = texts;
  const session = useSession();
  const navigate = useNavigate();
  const [typed, setTyped] = useState('');
  const [active, setAt] = useState(0);
  const [terminating, setTerminating] = useState<InstanceObject | null>(null);
  // Not deferred: Enter takes the first of what fits the text that is seen.
  const asked = typed.trim().toLowerCase();
  const { acts: words } = texts.instances;
  const read = readActs(asked, words);
  const act = useAct();
  const open = useOpen();
  const instancesNamed = (name: string) => ({
    queryKey: ['instances', 'palette', name],
    queryFn: async () => {
      const filters = name === '' ? {} : { name };
      const pager = { currentPage: 1, pageSize: SHOWN };
      return (await api.listInstances({ pager, withoutReleased: true, ...filters })).instances;
    },
    placeholderData: (before: InstanceObject[] | undefined) => before,
  });
  const instances = useQuery(instancesNamed(asked)).data ?? [];
  const toActOn = useQuery({ ...instancesNamed(read.name), enabled: read.acts.length > 0 }).data ?? [];
  const volumes = useQuery(volumesQuery).data;
  const matches = (name: string): boolean => name.toLowerCase().includes(asked);
  const lead =
    (to: string, search = {}) =>
    () => {
      onClose();
      void navigate({ to, search });
    };
  const perform = (name: PaletteAct, instance: InstanceObject): void => {
    if (name === 'terminate') return setTerminating(instance);
    if (name === 'open') open(idOf(instance));
    else act.mutate({ act: name, instance });
    onClose();
  };
  const places = [...placesOf(texts), ...operatorPlacesOf(texts, session)];
  const entries: Found[] = [
    ...[
      { key: 'launch', name: shell.launch, icon: IconPlus, go: lead('/launch') },
      { key: 'volume', name: shell.newVolume, icon: IconPlus, go: lead('/volumes', { create: true }) },
      { key: 'api-key', name: shell.newApiKey, icon: IconPlus, go: lead('/access', { create: true }) },
      { key: 'ssh-key', name: shell.newSshKey, icon: IconPlus, go: lead('/access', { tab: 'ssh', create: true }) },
    ].map((one) => ({ ...one, group: shell.commands })),
    ...places.map(({ name, to, icon }) => ({ key: to, group: shell.pages, name, icon, go: lead(to) })),
    ...instances.map((row) => ({
      key: idOf(row),
      group: shell.places.instances,
      name: nameOf(row),
      hint: texts.statuses.instance[row.instanceRuntimeInfo.status],
      icon: IconServer,
      go: lead(`/instances/${idOf(row)}`),
    })),
    ...(volumes ?? []).map(({ id, volumeName }) => ({
      key: id,
      group: shell.places.volumes,
      name: volumeName,
      icon: IconDatabase,
      go: lead(`/volumes/${id}`),
    })),
  ].filter(({ name }) => matches(name));
  entries.push(
    ...actsOn(toActOn, read).map(({ act: name, instance }) => ({
      key: `${name}-${idOf(instance)}`,
      group: shell.commands,
      name: `${words[name]}: ${nameOf(instance)}`,
      icon: IconBolt,
      go: () => perform(name, instance),
    })),
  );
  const chosenKey = entries[active]?.key;
  useEffect(() => {
    document.querySelector('#found [aria-selected=true]')?.scrollIntoView({ block: 'nearest' });
  }, [chosenKey]);
  const onKey = (event: KeyboardEvent): void => {
    if (isComposing(event)) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && entries.length > 0) {
      event.preventDefault();
      setAt((now) => (now + step + entries.length) % entries.length);
    }
    const chosen = entries[active];
    if (event.key === 'Enter' && chosen !== undefined) chosen.go();
  };
  if (terminating !== null) return <TerminateDialog instances={[terminating]} onClose={onClose} />;
  return (
    <Dialog onClose={onClose} withCloseButton={false} padding={0} size="lg" yOffset="12vh" aria-label={shell.search}>
      <TextInput
        data-autofocus
        size="md"
        variant="unstyled"
        px="md"
        leftSection={<IconSearch size={16} />}
        rightSection={<Kbd size="xs">esc</Kbd>}
        placeholder={shell.search}
        aria-label={shell.search}
        role="combobox"
        aria-expanded
        aria-controls="found"
        aria-activedescendant={chosenKey && `found-${chosenKey}`}
        value={typed}
        onChange={({ currentTarget }) => {
          setTyped(currentTarget.value);
          setAt(0);
        }}
        onKeyDown={onKey}
      />
      <ScrollArea.Autosize mah="55vh">
        <Box role="listbox" id="found" aria-label={shell.search} p={4}>
          {entries.length === 0 && (
            <Text size="sm" c="dimmed" p="md">
              {shell.nothingFound}
            </Text>
          )}
          {entries.map((entry, index) => {
            const Icon = entry.icon;
            return (
              <UnstyledButton
                key={entry.key}
                id={`found-${entry.key}`}
                role="option"
                tabIndex={-1}
                aria-selected={index === active}
                className={classes.found}
                onClick={entry.go}
              >
                <Icon size={16} stroke={1.6} />
                <Text span size="sm" truncate flex={1}>
                  {entry.name}
                </Text>
                <Group gap={6}>
                  <Text span size="xs" c="dimmed">
                    {entry.hint ?? entry.group}
                  </Text>
                </Group>
              </UnstyledButton>
            );
          })}
        </Box>
      </ScrollArea.Autosize>
    </Dialog>
  );
}
