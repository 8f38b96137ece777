/** The next sensible act as a button, the others beside it; what the state forbids says why. */
import { ActionIcon, Button, Group, Menu, Tooltip } from '@mantine/core';
import { IconDotsVertical, IconExternalLink, IconPlayerPlay } from '@tabler/icons-react';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { ButtonLink, MenuLink } from '../../parts/links.tsx';
import { useOneAct } from '../../parts/use-one-act.ts';
import { useTexts } from '../../texts/provider.tsx';
import { useAct, useOpen } from '../instances/acts.ts';
import { idOf, mayAct, nextActOf, type ActName } from '../instances/allowed-acts.ts';
import { ActItems } from '../instances/act-items.tsx';
import { TerminateDialog } from '../instances/terminate-dialog.tsx';
import { NewRootDiskModal } from './new-root-disk-modal.tsx';
import type { InstanceView } from './queries.ts';

const besides: readonly ActName[] = ['stop', 'restart'];

export function HeadActs({ view: { instance } }: { view: InstanceView }) {
  const texts = useTexts();
  const { acts, notNow } = texts.instances;
  const act = useAct();
  const open = useOpen();
  const [isTerminating, setTerminating] = useState(false);
  const [isReplacing, setReplacing] = useState(false);
  const isRootDiskLost = instance.instanceRuntimeInfo.diagnosisReason === 'RootDiskLost';
  const instanceId = idOf(instance);
  const next = nextActOf(instance);
  const word = texts.statuses.instance[instance.instanceRuntimeInfo.status];
  const isPossible = (name: ActName): boolean => mayAct(instance, name);
  const perform = (name: ActName): void => {
    if (!isPossible(name)) return;
    if (name === 'terminate') setTerminating(true);
    else if (name === 'start' && isRootDiskLost) setReplacing(true);
    else act.mutate({ act: name, instance });
  };
  const withoutGpu = useOneAct({
    act: () => api.start({ instanceId, withoutGpu: true }, { waitForCapacity: true }),
  });
  if (instance.instanceRuntimeInfo.status === 'Released')
    return (
      <ButtonLink to="/launch" search={{ like: instanceId }}>
        {acts.again}
      </ButtonLink>
    );
  const hasGpu = instance.instanceSpecInfo.instanceTypeInfo.gpu.amount > 0;
  return (
    <Group gap={6} wrap="nowrap">
      {next === 'open' && (
        <Button leftSection={<IconExternalLink size={14} />} onClick={() => open(instanceId)}>
          {acts.open}
        </Button>
      )}
      {(next === 'start' || next === 'why') && (
        <Button
          leftSection={<IconPlayerPlay size={14} />}
          loading={act.isPending}
          disabled={!isPossible('start')}
          onClick={() => perform('start')}
        >
          {acts.start}
        </Button>
      )}
      {next === 'pay' && <ButtonLink to="/billing">{acts.pay}</ButtonLink>}
      {besides.map((name) => (
        <Tooltip key={name} label={notNow(word)} disabled={isPossible(name)}>
          <Button
            variant="default"
            visibleFrom={name === 'restart' ? 'sm' : undefined}
            data-disabled={isPossible(name) ? undefined : true}
            aria-disabled={!isPossible(name)}
            onClick={() => perform(name)}
          >
            {acts[name]}
          </Button>
        </Tooltip>
      ))}
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon variant="default" size={30} aria-label={texts.common.more}>
            <IconDotsVertical size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <ActItems instance={instance} except="stop" isPossible={isPossible} onAct={perform} />
          {hasGpu && !isRootDiskLost && (
            <Menu.Item
              disabled={!isPossible('start')}
              title={isPossible('start') ? texts.instance.withoutGpuHint : notNow(word)}
              onClick={() => withoutGpu.mutate()}
            >
              {texts.instance.startWithoutGpu}
            </Menu.Item>
          )}
          <Menu.Divider />
          <MenuLink to="/launch" search={{ like: instanceId }}>
            {acts.again}
          </MenuLink>
        </Menu.Dropdown>
      </Menu>
      {isReplacing && <NewRootDiskModal instance={instance} onClose={() => setReplacing(false)} />}
      {isTerminating && <TerminateDialog instances={[instance]} onClose={() => setTerminating(false)} />}
    </Group>
  );
}
