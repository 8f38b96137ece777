/** Labels of a resource, a line each. */
import { Text, Textarea } from '@mantine/core';
import { useState } from 'react';
import { useTexts } from '../texts/provider.tsx';
import { FormModal } from './form-modal.tsx';
import { labelsOf, linesOf } from './labels.ts';

interface LabelsModalProps {
  name: string;
  labels: Record<string, string> | undefined;
  save: (labels: Record<string, string>) => Promise<unknown>;
  onDone?: () => void;
  onClose: () => void;
}

export function LabelsModal({ name, labels, save, onDone, onClose }: LabelsModalProps) {
  const { common, parts } = useTexts();
  const [lines, setLines] = useState(linesOf(labels ?? {}));
  return (
    <FormModal
      title={parts.labels.title(name)}
      verb={common.save}
      act={() => save(labelsOf(lines))}
      onDone={onDone}
      onClose={onClose}
    >
      <Textarea
        label={parts.labels.field}
        value={lines}
        autosize
        minRows={4}
        spellCheck={false}
        placeholder="team=vision"
        styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
        onChange={({ currentTarget }) => setLines(currentTarget.value)}
        data-autofocus
      />
      <Text size="xs" c="dimmed">
        {parts.labels.hint}
      </Text>
    </FormModal>
  );
}
