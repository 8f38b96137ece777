/** Adds a passkey of this browser or of a security key. */
import { TextInput } from '@mantine/core';
import { useState } from 'react';
import { ApiError } from '../../../../src/contract/client.ts';
import { api } from '../../app/api.ts';
import { useTexts } from '../../texts/provider.tsx';
import { makePasskey } from './passkeys.ts';
import { ProofModal, type Proof } from './proof-modal.tsx';

interface PasskeyModalProps {
  needsCode: boolean;
  onDone: (recoveryCodes: readonly string[]) => void;
  onClose: () => void;
}

export function PasskeyModal({ needsCode, onDone, onClose }: PasskeyModalProps) {
  const { secondFactor } = useTexts().settings;
  const [name, setName] = useState('');
  const add = async (proof: Proof): Promise<readonly string[]> => {
    const begun = await api.beginPasskey(proof);
    const credential = await makePasskey(begun).catch((cause: unknown) => {
      throw new ApiError(secondFactor.passkeyFailed, { status: 0, code: 'unreadable', cause });
    });
    return (await api.createPasskey({ name: name.trim(), credential })).recoveryCodes;
  };
  return (
    <ProofModal
      title={secondFactor.addPasskey}
      verb={secondFactor.goOn}
      hints={[secondFactor.passkeyHint, secondFactor.ends]}
      needsCode={needsCode}
      isReady={name.trim() !== ''}
      act={add}
      onDone={onDone}
      onClose={onClose}
    >
      <TextInput
        label={secondFactor.passkeyName}
        placeholder={secondFactor.passkeyExample}
        maxLength={100}
        value={name}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
        data-autofocus
      />
    </ProofModal>
  );
}
