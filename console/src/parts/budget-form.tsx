/** Creates or changes a budget. */
import { Autocomplete, Checkbox, Group, NumberInput, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useTexts } from '../texts/provider.tsx';
import type { Budget, BudgetListProps } from './budget-list.tsx';
import { ActModal } from './act-modal.tsx';

interface BudgetFormProps extends Pick<BudgetListProps, 'set' | 'labelKeys' | 'stale'> {
  budget: Budget | undefined;
  onClose: () => void;
}

const amountOf = (value: number | string): number | undefined => (value === '' ? undefined : Number(value));

export function BudgetForm({ budget, set, labelKeys, stale, onClose }: BudgetFormProps) {
  const { budgets: texts, common } = useTexts();
  const [name, setName] = useState(budget?.name ?? '');
  const [soft, setSoft] = useState<number | string>(budget?.soft ?? '');
  const [hard, setHard] = useState<number | string>(budget?.hard ?? '');
  const [isScoped, setScoped] = useState(budget ? budget.scope !== null : false);
  const [key, setKey] = useState(budget?.scope?.label.key ?? labelKeys[0] ?? '');
  const [value, setValue] = useState(budget?.scope?.label.value ?? '');
  const limits = { soft: amountOf(soft), hard: amountOf(hard) };
  const isReady = name.trim() !== '' && (limits.soft ?? limits.hard) !== undefined && (!isScoped || key !== '');
  return (
    <ActModal
      title={budget === undefined ? texts.newTitle : texts.edit(budget.name)}
      label={common.save}
      onClose={onClose}
      isReady={isReady}
      stale={stale}
      act={() =>
        set({
          name: name.trim(),
          ...(limits.soft === undefined ? {} : { soft: limits.soft }),
          ...(limits.hard === undefined ? {} : { hard: limits.hard }),
          ...(isScoped ? { scope: { label: { key, value } } } : {}),
          ...(budget === undefined ? {} : { timeZone: budget.timeZone }),
        })
      }
    >
      <TextInput
        label={texts.name}
        value={name}
        data-autofocus
        disabled={budget !== undefined}
        maxLength={64}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
      />
      <Group grow align="flex-start">
        <NumberInput
          label={texts.soft}
          description={texts.softHint}
          prefix="$"
          min={0}
          decimalScale={6}
          value={soft}
          onChange={setSoft}
        />
        <NumberInput
          label={texts.hard}
          description={texts.hardHint}
          prefix="$"
          min={0}
          decimalScale={6}
          value={hard}
          onChange={setHard}
        />
      </Group>
      <Checkbox
        label={texts.ofLabel}
        checked={isScoped}
        onChange={({ currentTarget }) => setScoped(currentTarget.checked)}
      />
      {isScoped && (
        <Group grow>
          <Autocomplete label={texts.labelKey} data={[...labelKeys]} value={key} onChange={setKey} />
          <TextInput
            label={texts.labelValue}
            value={value}
            onChange={({ currentTarget }) => setValue(currentTarget.value)}
          />
        </Group>
      )}
      <Text size="xs" c="dimmed">
        {texts.hint}
      </Text>
    </ActModal>
  );
}
