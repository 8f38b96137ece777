/** A new API key with its limits. */
import { Checkbox, NativeSelect, Radio, Stack, TagsInput, TextInput } from '@mantine/core';
import { useState } from 'react';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { scopes, type Scope } from '../../../../src/contract/statuses.ts';
import { api } from '../../app/api.ts';
import { useSession } from '../../app/session.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { useTexts } from '../../texts/provider.tsx';

const DAY_MS = 86_400_000;
const days = { none: null, week: 7, month: 30, quarter: 90, year: 365 } as const;
type End = keyof typeof days;
const ends: readonly End[] = ['none', 'week', 'month', 'quarter', 'year'];

interface CreateKeyModalProps {
  onDone: (made: AnswerOf<'createApiKey'>) => void;
  onClose: () => void;
}

export function CreateKeyModal({ onDone, onClose }: CreateKeyModalProps) {
  const { keys } = useTexts().access;
  const { isOperator } = useSession();
  const [name, setName] = useState('');
  const [isLimited, setLimited] = useState(false);
  const [chosen, setChosen] = useState<Scope[]>(['read']);
  const [end, setEnd] = useState<End>('none');
  const [addresses, setAddresses] = useState<string[]>([]);
  const create = (): Promise<AnswerOf<'createApiKey'>> => {
    const count = days[end];
    return api.createApiKey({
      name: name.trim(),
      scopes: isLimited ? chosen : null,
      expiresAtUnixMs: count === null ? null : Date.now() + count * DAY_MS,
      addresses: addresses.length === 0 ? null : addresses,
    });
  };
  return (
    <FormModal
      title={keys.create}
      verb={keys.create}
      isReady={name.trim() !== '' && (!isLimited || chosen.length > 0)}
      act={create}
      onDone={onDone}
      onClose={onClose}
    >
      <TextInput
        label={keys.name}
        description={keys.nameHint}
        value={name}
        maxLength={100}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
        data-autofocus
      />
      <Radio.Group
        label={keys.may}
        value={isLimited ? 'some' : 'all'}
        onChange={(value) => setLimited(value === 'some')}
      >
        <Stack gap={10} mt={4}>
          <Radio size="xs" value="all" label={keys.all} />
          <Radio size="xs" value="some" label={keys.some} />
        </Stack>
      </Radio.Group>
      {isLimited && (
        <Checkbox.Group
          aria-label={keys.may}
          value={chosen}
          onChange={(values) => setChosen(scopes.filter((scope) => values.includes(scope)))}
        >
          <Stack gap={10} pl="lg">
            {scopes
              .filter((scope) => scope !== 'admin' || isOperator)
              .map((scope) => (
                <Checkbox key={scope} size="xs" value={scope} label={keys.scopes[scope]} />
              ))}
          </Stack>
        </Checkbox.Group>
      )}
      <NativeSelect
        size="sm"
        label={keys.end}
        value={end}
        onChange={({ currentTarget }) => setEnd(ends.find((one) => one === currentTarget.value) ?? 'none')}
        data={ends.map((value) => ({ value, label: keys.ends[value] }))}
      />
      <TagsInput
        label={keys.addresses}
        description={keys.addressesHint}
        value={addresses}
        onChange={setAddresses}
        splitChars={[',', ' ']}
        maxTags={50}
        acceptValueOnBlur
      />
    </FormModal>
  );
}
