/** Second factor of the account: what there is, and the dialogs that change it. */
import { Alert, Button, Group, Stack, Text } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useQueryClient, type UseQueryResult } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { api } from '../../app/api.ts';
import { base } from '../../app/base.ts';
import { Loading } from '../../parts/loading.tsx';
import { SecretOnce } from '../../parts/secret-once.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { PasskeyModal } from './passkey-modal.tsx';
import { arePasskeysPossible } from './passkeys.ts';
import { ProofModal } from './proof-modal.tsx';
import { secondFactorQuery } from './second-factor-query.ts';
import { TotpModal } from './totp-modal.tsx';

type State = AnswerOf<'getSecondFactor'>;

export function SecondFactorBlock({ query }: { query: UseQueryResult<State> }) {
  const { settings } = useTexts();
  if (query.isError) return <Trouble error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return <Loading h={120} label={settings.secondFactor.title} />;
  return <Factors state={query.data} />;
}

function Factors({ state: { factors, recoveryCodes, passkeys, isRequired, mustSetUp } }: { state: State }) {
  const { secondFactor } = useTexts().settings;
  const queries = useQueryClient();
  const [open, setOpen] = useState<'addApp' | 'removeApp' | 'newCodes' | 'addPasskey'>();
  const [removed, setRemoved] = useState<State['passkeys'][number]>();
  const [totp, setTotp] = useState<AnswerOf<'createTotp'>>();
  const [codes, setCodes] = useState<readonly string[]>([]);
  const close = (): void => setOpen(undefined);
  const reload = (): void => void queries.invalidateQueries({ queryKey: secondFactorQuery.queryKey });
  // Pages that were refused are asked for again.
  const finish = (): void => (mustSetUp ? window.location.assign(`${base}/`) : reload());
  const added = (fresh: readonly string[]): void => {
    setCodes(fresh);
    if (fresh.length === 0 || !mustSetUp) finish();
  };
  const hasApp = factors.includes('totp');
  return (
    <Stack gap="sm">
      {mustSetUp ? (
        <Alert color="yellow" variant="light" icon={<IconAlertTriangle size={18} />}>
          {secondFactor.mustSetUp}
        </Alert>
      ) : (
        <Text size="sm" c="dimmed">
          {secondFactor.hint}
        </Text>
      )}
      {factors.length === 0 && !mustSetUp && <Text size="sm">{secondFactor.none}</Text>}
      <Line name={secondFactor.app}>
        {hasApp ? (
          <Button
            variant="default"
            aria-label={`${secondFactor.remove}: ${secondFactor.app}`}
            onClick={() => setOpen('removeApp')}
          >
            {secondFactor.remove}
          </Button>
        ) : (
          <Button variant={mustSetUp ? 'filled' : 'default'} onClick={() => setOpen('addApp')}>
            {secondFactor.addApp}
          </Button>
        )}
      </Line>
      {passkeys.map((passkey) => (
        <Line key={passkey.id} name={`${secondFactor.passkey}: ${passkey.name}`}>
          <Button
            variant="default"
            aria-label={`${secondFactor.remove}: ${passkey.name}`}
            onClick={() => setRemoved(passkey)}
          >
            {secondFactor.remove}
          </Button>
        </Line>
      ))}
      {arePasskeysPossible() && (
        <Line name={secondFactor.passkeys}>
          <Button variant="default" onClick={() => setOpen('addPasskey')}>
            {secondFactor.addPasskey}
          </Button>
        </Line>
      )}
      {factors.length > 0 && (
        <Line name={`${secondFactor.codes}: ${secondFactor.codesLeft(recoveryCodes)}`}>
          <Button variant="default" onClick={() => setOpen('newCodes')}>
            {secondFactor.newCodes}
          </Button>
        </Line>
      )}
      {open === 'addApp' && (
        <ProofModal
          title={secondFactor.addAppTitle}
          verb={secondFactor.goOn}
          hints={[]}
          needsCode={factors.length > 0}
          act={(proof) => api.createTotp(proof)}
          onDone={setTotp}
          onClose={close}
        />
      )}
      {totp && <TotpModal totp={totp} onDone={added} onClose={() => setTotp(undefined)} />}
      {open === 'removeApp' && (
        <ProofModal
          title={secondFactor.removeApp}
          verb={secondFactor.remove}
          hints={[isRequired ? secondFactor.removeRequired : secondFactor.removeHint, secondFactor.ends]}
          needsCode
          act={(proof) => api.deleteTotp(proof)}
          onDone={reload}
          onClose={close}
        />
      )}
      {open === 'addPasskey' && <PasskeyModal needsCode={factors.length > 0} onDone={added} onClose={close} />}
      {removed && (
        <ProofModal
          title={secondFactor.removePasskey(removed.name)}
          verb={secondFactor.remove}
          hints={[isRequired ? secondFactor.removeRequired : secondFactor.removeHint, secondFactor.ends]}
          needsCode
          act={(proof) => api.deletePasskey({ ...proof, id: removed.id })}
          onDone={reload}
          onClose={() => setRemoved(undefined)}
        />
      )}
      {open === 'newCodes' && (
        <ProofModal
          title={secondFactor.newCodesTitle}
          verb={secondFactor.newCodes}
          hints={[secondFactor.newCodesHint]}
          needsCode
          act={(proof) => api.createRecoveryCodes(proof)}
          onDone={(answer) => added(answer.recoveryCodes)}
          onClose={close}
        />
      )}
      {codes.length > 0 && (
        <SecretOnce
          title={secondFactor.codes}
          secret={codes.join('\n')}
          hint={secondFactor.codesHint}
          onClose={() => {
            setCodes([]);
            finish();
          }}
        />
      )}
    </Stack>
  );
}

function Line({ name, children }: { name: string; children: ReactNode }) {
  return (
    <Group justify="space-between" wrap="nowrap" gap="xs">
      <Text size="sm">{name}</Text>
      {children}
    </Group>
  );
}
