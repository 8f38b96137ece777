import { ActionIcon, Tooltip } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';
import { useState } from 'react';
import { useTexts } from '../texts/provider.tsx';

const SHOWN_MS = 1_500;

/** Pages over plain HTTP have no clipboard: a selection does the same. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  area.setAttribute('readonly', '');
  area.className = 'off-screen';
  document.body.append(area);
  area.select();
  // The only way without a secure context.
  document.execCommand('copy');
  area.remove();
}

export function CopyButton({ value, label }: { value: string; label?: string }) {
  const { common } = useTexts();
  const [isCopied, setCopied] = useState(false);
  const name = isCopied ? common.copied : (label ?? common.copy);
  const copy = (): void => {
    void copyText(value).then(() => {
      setCopied(true);
      window.setTimeout(() => setCopied(false), SHOWN_MS);
    });
  };
  return (
    <Tooltip label={name}>
      <ActionIcon size="sm" onClick={copy} aria-label={name}>
        {isCopied ? <IconCheck size={14} /> : <IconCopy size={14} />}
      </ActionIcon>
    </Tooltip>
  );
}
