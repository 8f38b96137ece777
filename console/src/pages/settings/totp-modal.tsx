/** Secret of an authenticator app, and its first code. */
import { Code, Group, Text, TextInput } from '@mantine/core';
import { QRCodeSVG } from 'qrcode.react';
import { useState } from 'react';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { api } from '../../app/api.ts';
import { CopyButton } from '../../parts/copy-button.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { useTexts } from '../../texts/provider.tsx';

interface TotpModalProps {
  totp: AnswerOf<'createTotp'>;
  onDone: (recoveryCodes: readonly string[]) => void;
  onClose: () => void;
}

const QR_PX = 192;

export function TotpModal({ totp: { secret, uri }, onDone, onClose }: TotpModalProps) {
  const { secondFactor } = useTexts().settings;
  const [code, setCode] = useState('');
  return (
    <FormModal
      title={secondFactor.addAppTitle}
      verb={secondFactor.confirm}
      isReady={code !== ''}
      act={() => api.confirmTotp({ code })}
      onDone={({ recoveryCodes }) => onDone(recoveryCodes)}
      onClose={onClose}
    >
      <Text size="sm">{secondFactor.scan}</Text>
      {/* Scanners need dark on light, in a dark theme too. */}
      <QRCodeSVG value={uri} size={QR_PX} marginSize={4} title={secondFactor.qrCode} />
      <Group gap={4} wrap="nowrap">
        <Text size="sm">{secondFactor.secret}</Text>
        <Code style={{ overflowWrap: 'anywhere' }}>{secret}</Code>
        <CopyButton value={secret} />
      </Group>
      <TextInput
        label={secondFactor.codeOfApp}
        description={secondFactor.ends}
        autoComplete="one-time-code"
        inputMode="numeric"
        value={code}
        onChange={({ currentTarget }) => setCode(currentTarget.value)}
        data-autofocus
      />
    </FormModal>
  );
}
