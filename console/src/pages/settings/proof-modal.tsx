/** An act that needs the password, and a code once the account has a second factor. */
import { PasswordInput, Text, TextInput } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import { FormModal } from '../../parts/form-modal.tsx';
import { useTexts } from '../../texts/provider.tsx';

export interface Proof {
  password: string;
  code?: string;
}

interface ProofModalProps<Output> {
  title: string;
  verb: string;
  hints: readonly string[];
  needsCode: boolean;
  act: (proof: Proof) => Promise<Output>;
  onDone: (output: Output) => void;
  onClose: () => void;
  isReady?: boolean;
  children?: ReactNode;
}

export function ProofModal<Output>(props: ProofModalProps<Output>) {
  const { title, verb, hints, needsCode, act, onDone, onClose, isReady = true, children } = props;
  const { secondFactor } = useTexts().settings;
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  return (
    <FormModal
      title={title}
      verb={verb}
      isReady={isReady && password !== '' && (!needsCode || code !== '')}
      act={() => act(needsCode ? { password, code } : { password })}
      onDone={onDone}
      onClose={onClose}
    >
      {hints.map((hint) => (
        <Text key={hint} size="sm">
          {hint}
        </Text>
      ))}
      {children}
      <PasswordInput
        label={secondFactor.password}
        autoComplete="current-password"
        value={password}
        onChange={({ currentTarget }) => setPassword(currentTarget.value)}
        data-autofocus={children === undefined || undefined}
      />
      {needsCode && (
        <TextInput
          label={secondFactor.code}
          description={secondFactor.codeHint}
          autoComplete="one-time-code"
          spellCheck={false}
          value={code}
          onChange={({ currentTarget }) => setCode(currentTarget.value)}
        />
      )}
    </FormModal>
  );
}
