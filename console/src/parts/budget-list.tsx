/** Budgets of an account: what is spent of each; created, changed and deleted by who set them. */
import { Badge, Box, Button, Group, Progress, Stack, Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useState } from 'react';
import type { AnswerOf, InputOf } from '../../../src/contract/routes.ts';
import { useFormat } from '../app/format.ts';
import { useTexts } from '../texts/provider.tsx';
import { BudgetForm } from './budget-form.tsx';
import { EmptyState } from './empty-state.tsx';
import { ActModal } from './act-modal.tsx';

export type Budget = AnswerOf<'listBudgets'>['budgets'][number];

export interface BudgetListProps {
  budgets: readonly Budget[];
  /** Others' budgets are shown, and stay as they are. */
  editor: 'owner' | 'administrator';
  labelKeys: readonly string[];
  /** First members of query keys that hold the budgets. */
  stale: readonly string[];
  set: (body: InputOf<'setBudget'>) => Promise<unknown>;
  remove: (name: string) => Promise<unknown>;
}

export function BudgetList(props: BudgetListProps) {
  const { budgets, editor, stale, remove } = props;
  const { budgets: texts, common } = useTexts();
  const [edited, setEdited] = useState<Budget | 'new'>();
  const [deleted, setDeleted] = useState<Budget>();
  const add = (
    <Button leftSection={<IconPlus size={14} />} onClick={() => setEdited('new')}>
      {texts.add}
    </Button>
  );
  return (
    <Stack gap="sm">
      {budgets.length === 0 ? <EmptyState {...texts.empty}>{add}</EmptyState> : <Group>{add}</Group>}
      {budgets.map((budget) => (
        <BudgetRow
          key={`${budget.setBy} ${budget.name}`}
          budget={budget}
          {...(budget.setBy === editor ? { onEdit: () => setEdited(budget), onDelete: () => setDeleted(budget) } : {})}
        />
      ))}
      {edited !== undefined && (
        <BudgetForm {...props} budget={edited === 'new' ? undefined : edited} onClose={() => setEdited(undefined)} />
      )}
      {deleted && (
        <ActModal
          title={texts.deleteTitle(deleted.name)}
          label={common.delete}
          isDestructive
          onClose={() => setDeleted(undefined)}
          act={() => remove(deleted.name)}
          stale={stale}
        >
          <Text size="sm">{texts.deleteLoses}</Text>
        </ActModal>
      )}
    </Stack>
  );
}

function BudgetRow({ budget, onEdit, onDelete }: { budget: Budget; onEdit?: () => void; onDelete?: () => void }) {
  const { budgets: texts, common } = useTexts();
  const { money, percent } = useFormat();
  const { name, scope, soft, hard, spent, forecast, softReached, hardReached, setBy, month, timeZone } = budget;
  const limit = hard ?? soft ?? 0;
  const share = limit === 0 ? 1 : spent / limit;
  const word = hardReached ? texts.hardReached : softReached ? texts.softReached : null;
  return (
    <Box py="xs" className="row-line">
      <Group justify="space-between" gap="xs">
        <Group gap="xs">
          <Text size="sm" fw={600}>
            {name}
          </Text>
          <Text size="xs" c="dimmed">
            {scope === null ? texts.all : `${scope.label.key}=${scope.label.value}`}
          </Text>
          {setBy === 'administrator' && (
            <Badge size="xs" variant="default" tt="none">
              {texts.byAdministrator}
            </Badge>
          )}
          {word !== null && (
            <Badge size="sm" tt="none" color={hardReached ? 'red' : 'orange'} variant="light">
              {word}
            </Badge>
          )}
        </Group>
        <Group gap={4}>
          {onEdit && (
            <Button variant="default" onClick={onEdit} aria-label={texts.edit(name)}>
              {texts.change}
            </Button>
          )}
          {onDelete && (
            <Button variant="subtle" color="red" onClick={onDelete} aria-label={`${common.delete} ${name}`}>
              {common.delete}
            </Button>
          )}
        </Group>
      </Group>
      <Progress.Root size="md" my={6}>
        <Progress.Section
          value={Math.min(100, share * 100)}
          color={hardReached ? 'red' : softReached ? 'orange' : undefined}
          aria-label={texts.spentOf(money(spent), money(limit))}
        />
        <Progress.Section
          value={limit === 0 ? 0 : Math.max(0, Math.min(100 - share * 100, ((forecast - spent) / limit) * 100))}
          color="gray.4"
          aria-label={texts.forecast(money(forecast))}
        />
      </Progress.Root>
      <Text size="xs" c="dimmed">
        {[
          `${texts.spentOf(money(spent), money(limit))} (${percent(share)})`,
          texts.forecast(money(forecast)),
          ...(soft === null ? [] : [texts.softAt(money(soft))]),
          ...(hard === null ? [] : [texts.hardAt(money(hard))]),
          `${month} ${timeZone}`,
        ].join(' · ')}
      </Text>
    </Box>
  );
}
