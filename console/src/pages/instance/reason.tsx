/**
 * Why an instance is not as it should be, in the product's words, with the next step as a button.
 */
import { Alert, Button, Group, Text } from '@mantine/core';
import { IconAlertTriangle, IconInfoCircle } from '@tabler/icons-react';
import { diagnoses } from '../../../../src/contract/compute/diagnoses.ts';
import { ButtonLink } from '../../parts/links.tsx';
import { asSentence } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { useAct } from '../instances/acts.ts';
import { idOf } from '../instances/allowed-acts.ts';
import { isFailed } from './headline.ts';
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
  const scriptFailed = /exited with code [1-9]/.test(message);
  if (diagnosisReason === '' && !scriptFailed) return null;
  const words = wordsOf(diagnosisReason, reasons);
  const detail = diagnosisReason === '' ? message : diagnosisMessage;
  const isTrouble = isFailed(view) || scriptFailed;
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
        {scriptFailed && (
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
  const variant = isFirst ? 'filled' : 'default';
  const instanceId = idOf(view.instance);
  switch (step.kind) {
    case 'act':
      return (
        <Button
          variant={variant}
          loading={act.isPending}
          onClick={() => act.mutate({ act: step.act, instance: view.instance })}
        >
          {instances.acts[step.act]}
        </Button>
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
