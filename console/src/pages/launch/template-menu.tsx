/** Launches kept under a name, for the account. */
import { ActionIcon, Button, Group, Menu, TextInput } from '@mantine/core';
import { IconTemplate, IconTrash } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { useTexts } from '../../texts/provider.tsx';
import { choicesOfBody, type Choices, type LaunchBody, type Scripts } from './draft.ts';

const templatesQuery = { queryKey: ['templates'], queryFn: async () => (await api.listTemplates()).templates };

interface TemplateMenuProps {
  body: LaunchBody;
  onChoose: (choices: Choices, scripts: Scripts) => void;
}

export function TemplateMenu({ body, onChoose }: TemplateMenuProps) {
  const { launch, common } = useTexts();
  const queries = useQueryClient();
  const templates = useQuery(templatesQuery).data ?? [];
  const [name, setName] = useState('');
  const reload = (): Promise<void> => queries.invalidateQueries({ queryKey: templatesQuery.queryKey });
  const keep = useMutation({
    mutationFn: () => api.setTemplate({ name: name.trim(), launch: body }),
    onSuccess: reload,
  });
  const remove = useMutation({ mutationFn: (gone: string) => api.deleteTemplate({ name: gone }), onSuccess: reload });
  return (
    <Menu position="bottom-end" width={280} closeOnItemClick={false}>
      <Menu.Target>
        <Button variant="default" leftSection={<IconTemplate size={14} />}>
          {launch.templates}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {templates.length === 0 && <Menu.Label>{launch.noTemplates}</Menu.Label>}
        {templates.map((template) => (
          <Group key={template.name} gap={4} wrap="nowrap">
            <Menu.Item
              onClick={() => {
                const { choices, scripts } = choicesOfBody(template.launch);
                onChoose(choices, scripts);
              }}
            >
              {template.name}
            </Menu.Item>
            <ActionIcon aria-label={`${common.delete} ${template.name}`} onClick={() => remove.mutate(template.name)}>
              <IconTrash size={14} />
            </ActionIcon>
          </Group>
        ))}
        <Menu.Divider />
        <Group p="xs" gap={4} wrap="nowrap">
          <TextInput
            size="xs"
            flex={1}
            placeholder={launch.templateName}
            aria-label={launch.templateName}
            value={name}
            onChange={({ currentTarget }) => setName(currentTarget.value)}
          />
          <Button disabled={name.trim() === ''} loading={keep.isPending} onClick={() => keep.mutate()}>
            {common.save}
          </Button>
        </Group>
      </Menu.Dropdown>
    </Menu>
  );
}
