/** Text that a list is filtered by, which the address holds. */
import { TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconSearch } from '@tabler/icons-react';
import { useRef, useState } from 'react';
import { useTexts } from '../texts/provider.tsx';

const TYPING_MS = 200;

interface FilterInputProps {
  value: string | undefined;
  onChange: (text: string) => void;
  label?: string;
}

export function FilterInput({ value = '', onChange, label }: FilterInputProps) {
  const { common } = useTexts();
  const name = label ?? common.filter;
  const [typed, setTyped] = useState(value);
  const sent = useRef(value);
  const send = useDebouncedCallback((text: string) => {
    sent.current = text;
    onChange(text);
  }, TYPING_MS);
  // The address changed by itself: a link, or the way back.
  if (value !== sent.current) {
    sent.current = value;
    setTyped(value);
  }
  return (
    <TextInput
      size="xs"
      placeholder={name}
      aria-label={name}
      leftSection={<IconSearch size={13} />}
      value={typed}
      onChange={({ currentTarget }) => {
        setTyped(currentTarget.value);
        send(currentTarget.value);
      }}
    />
  );
}
