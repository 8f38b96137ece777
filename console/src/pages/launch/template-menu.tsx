/** Launches kept under a name, for the account. */
import { ActionIcon, Button, Group, Menu, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconTemplate, IconTrash } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { ConfirmModal } from '../../parts/confirm-modal.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useOneAct } from '../../parts/use-one-act.ts';
import { useTexts } from '../../texts/provider.tsx';
import type { LaunchBody, Template } from './draft.ts';
import { templatesQuery } from './queries.ts';

interface TemplateMenuProps {
  body: LaunchBody;
  onChoose: (template: Template) => void;
  onDeleted: (name: string) => void;
}

export function TemplateMenu({ body, onChoose, onDeleted }: TemplateMenuProps) {
  const { launch, common } = useTexts();
  const { data: templates = [], error, refetch } = useQuery(templatesQuery);
  const [isOpen, setOpen] = useState(false);
  const [deleting, setDeleting] = useState<string>();
  return (
    <>
      <Menu position="bottom-end" width={280} closeOnItemClick={false} opened={isOpen} onChange={setOpen}>
        <Menu.Target>
          <Button variant="default" leftSection={<IconTemplate size={14} />}>
            {launch.templates}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {error && <Trouble error={error} onRetry={() => void refetch()} />}
          {!error && templates.length === 0 && <Menu.Label>{launch.noTemplates}</Menu.Label>}
          {templates.map((template) => (
            <Group key={template.name} gap={4} wrap="nowrap">
              <Menu.Item onClick={() => onChoose(template)}>{template.name}</Menu.Item>
              <ActionIcon
                aria-label={`${common.delete} ${template.name}`}
                title={common.delete}
                onClick={() => {
                  setOpen(false);
                  setDeleting(template.name);
                }}
              >
                <IconTrash size={14} />
              </ActionIcon>
            </Group>
          ))}
          <Menu.Divider />
          <KeepForm body={body} taken={templates.map(({ name }) => name)} />
        </Menu.Dropdown>
      </Menu>
      {deleting !== undefined && (
        <ConfirmModal
          title={launch.deleteTemplate(deleting)}
          loses={[launch.deleteTemplateLoses]}
          keeps={launch.deleteTemplateKeeps}
          verb={common.delete}
          act={() => api.deleteTemplate({ name: deleting })}
          onDone={() => {
            notifications.show({ message: launch.templateDeleted(deleting), color: 'berth' });
            onDeleted(deleting);
          }}
          onClose={() => setDeleting(undefined)}
        />
      )}
    </>
  );
}

/** Keeps the choices under a name. */
function KeepForm({ body, taken }: { body: LaunchBody; taken: readonly string[] }) {
  const { launch, common } = useTexts();
  const [name, setName] = useState('');
  const keep = useOneAct({
    act: async (kept: string) => {
      const isTaken = taken.includes(kept);
      await api.setTemplate({ name: kept, launch: body });
      return isTaken;
    },
    said: (isTaken, kept) => (isTaken ? launch.templateReplaced(kept) : launch.templateSaved(kept)),
    stale: templatesQuery.queryKey,
  });
  return (
    <Group p="xs" gap={4} wrap="nowrap">
      <TextInput
        size="xs"
        flex={1}
        placeholder={launch.templateName}
        aria-label={launch.templateName}
        value={name}
        maxLength={64}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
      />
      <Button disabled={name.trim() === ''} loading={keep.isPending} onClick={() => keep.mutate(name.trim())}>
        {common.save}
      </Button>
    </Group>
  );
}
