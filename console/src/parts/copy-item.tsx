/** A line of a menu that copies what it makes. */
import { Menu } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';
import { useState } from 'react';
import { copyText } from './copy-button.tsx';

export function CopyItem({ label, value }: { label: string; value: () => string }) {
  const [isCopied, setCopied] = useState(false);
  return (
    <Menu.Item
      leftSection={isCopied ? <IconCheck size={14} /> : <IconCopy size={14} />}
      onClick={() => void copyText(value()).then(() => setCopied(true))}
    >
      {label}
    </Menu.Item>
  );
}
