/**
 * Why an instance is not as it should be, in the product's words, with the next step as a button.
 */
import { Alert, Button, Group, Text } from '@mantine/core';
import { IconAlertTriangle, IconInfoCircle } from '@tabler/icons-react';
import { useState } from 'react';
import { diagnoses } from '../../../../src/contract/compute/diagnoses.ts';
import { ButtonLink } from '../../parts/links.tsx';
import { asSentence } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { TerminateDialog } from '../instances/terminate-dialog.tsx';
import { useAct } from '../instances/acts.ts';
import { idOf } from '../instances/allowed-acts.ts';
import { isFailed } from './headline.ts';
import { NewRootDiskModal } from './new-root-disk-modal.tsx';
import { stepsOf, type NextStep } from './next-steps.ts';
import type { InstanceView } from './queries.ts';
import type { Tab } from './search.ts';

interface ReasonProps {
  view: InstanceView;
  onTab: (tab: Tab) => void;
}

const english: Readonly<Record<string, string>> = diagnoses;

/** In the language of the person, else in that of the API. */
const wordsOf = (reason: string, reasons: Readonly<Record<string, string>>): string =>
  reasons[reason] ?? english[reason] ?? '';

export function Reason({ view, onTab }: ReasonProps) {
  const { instance: texts, reasons } = useTexts();
  const { instance, operatorAction } = view;
  const { diagnosisReason, diagnosisMessage, message } = instance.instanceRuntimeInfo;
  const { notebook } = instance;
  const notebookEnded = notebook !== null && (notebook.state === 'failed' || notebook.endedAtUnixMs > 0);
  const reported = notebookEnded || /exited with code [1-9]/.test(message);
  if (diagnosisReason === '' && !reported) return null;
  const words = wordsOf(diagnosisReason, reasons);
  const detail = diagnosisReason === '' ? message : diagnosisMessage;
  const isTrouble = isFailed(view) || reported;
  return (
    <Alert
      color={isTrouble ? 'red' : 'yellow'}
      variant="light"
      mb="md"
      role="status"
      icon={isTrouble ? <IconAlertTriangle size={18} /> : <IconInfoCircle size={18} />}
    >
      {detail !== '' && (
        <Text size="sm" fw={600} lang="en">
          {asSentence(detail)}
        </Text>
      )}
      {words !== '' && <Text size="sm">{words}</Text>}
      {operatorAction !== null && operatorAction.reason !== '' && (
        <Text size="sm">{texts.operatorSays(operatorAction.reason)}</Text>
      )}
      <Group gap="xs" mt={6}>
        {reported && (
          <Button variant="default" onClick={() => onTab('logs')}>
            {texts.steps.tabs.logs}
          </Button>
        )}
        {stepsOf(diagnosisReason, instance.actions).map((step, at) => (
          <Step key={JSON.stringify(step)} step={step} isFirst={isTrouble && at === 0} view={view} onTab={onTab} />
        ))}
      </Group>
    </Alert>
  );
}

function Step({ step, isFirst, view, onTab }: ReasonProps & { step: NextStep; isFirst: boolean }) {
  const { instance: texts, instances } = useTexts();
  const act = useAct();
  const [isAsking, setAsking] = useState(false);
  const variant = isFirst ? 'filled' : 'default';
  const { instance } = view;
  const instanceId = idOf(instance);
  const close = () => setAsking(false);
  switch (step.kind) {
    case 'act': {
      const { act: name } = step;
      const asks = name === 'terminate';
      return (
        <>
          <Button
            variant={variant}
            loading={act.isPending}
            onClick={() => (asks ? setAsking(true) : act.mutate({ act: name, instance }))}
          >
            {instances.acts[name]}
          </Button>
          {isAsking && <TerminateDialog instances={[instance]} onClose={close} />}
        </>
      );
    }
    case 'newRootDisk':
      return (
        <>
          <Button variant={variant} onClick={() => setAsking(true)}>
            {texts.newRootDisk.verb}
          </Button>
          {isAsking && <NewRootDiskModal instance={instance} onClose={close} />}
        </>
      );
    case 'tab':
      return (
        <Button variant={variant} onClick={() => onTab(step.tab)}>
          {texts.steps.tabs[step.tab]}
        </Button>
      );
    case 'launchOther':
      return (
        <ButtonLink variant={variant} to="/launch" search={{ like: instanceId }}>
          {texts.steps.launchOther}
        </ButtonLink>
      );
    case 'launchByHour':
      return (
        <ButtonLink variant={variant} to="/launch" search={{ like: instanceId, mode: 'perHour' }}>
          {texts.steps.launchByHour}
        </ButtonLink>
      );
    case 'place':
      return (
        <ButtonLink variant={variant} to={step.to}>
          {step.to === '/billing' ? instances.acts.pay : texts.steps.images}
        </ButtonLink>
      );
  }
}
