/** First run of an installation, for administrators. Each step can be skipped. */
import { Button, Group, Paper, Stack, Stepper, Text, Title } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { leadToLogin } from '../../app/session.ts';
import { useTexts } from '../../texts/provider.tsx';
import { ImageState } from '../images/image-state.tsx';
import { progressingImagesQuery } from '../images/queries.ts';
import { PasswordForm } from '../settings/password-form.tsx';
import { AddressesStep } from './addresses-step.tsx';
import { InstanceStep } from './instance-step.tsx';
import { PricesStep } from './prices-step.tsx';
import { steps, type Step } from './search.ts';

const route = getRouteApi('/welcome');

export function WelcomePage() {
  const { welcome } = useTexts();
  const { step = 'password' } = route.useSearch();
  const navigate = route.useNavigate();
  const isPhone = useMediaQuery('(max-width: 48em)') ?? false;
  const index = steps.indexOf(step);
  const go = (to: number): Promise<void> => navigate({ search: { step: steps[to] } });
  return (
    <Stack gap="md" maw={860}>
      <div>
        <Title order={1}>{welcome.title}</Title>
        <Text size="sm" c="dimmed">
          {welcome.hint}
        </Text>
      </div>
      <Stepper active={index} onStepClick={(to) => void go(to)} size="xs" iconSize={26}>
        {steps.map((one, index) => (
          <Stepper.Step
            key={one}
            label={isPhone ? undefined : welcome.steps[one]}
            aria-label={isPhone ? `${index + 1} ${welcome.steps[one]}` : undefined}
            // A step that was left may have been skipped.
            completedIcon={<span>{index + 1}</span>}
          />
        ))}
      </Stepper>
      <ImageProgress />
      <Paper withBorder p="md" component="section">
        <StepContent step={step} onPasswordChanged={() => void go(1).then(leadToLogin)} />
      </Paper>
      <Group justify="space-between">
        <Button variant="default" disabled={index === 0} onClick={() => void go(index - 1)}>
          {welcome.back}
        </Button>
        {index < steps.length - 1 && (
          <Button variant={step === 'password' ? 'default' : 'filled'} onClick={() => void go(index + 1)}>
            {step === 'password' ? welcome.skip : welcome.next}
          </Button>
        )}
      </Group>
    </Stack>
  );
}

/** The installation prepares its images meanwhile. */
function ImageProgress() {
  const images = useQuery(progressingImagesQuery).data ?? [];
  return images
    .filter(({ isPublic, state }) => isPublic === 'true' && state === 'Preparing')
    .map((image) => (
      <Group key={image.imageId} gap="sm" role="status" align="flex-start">
        <Text size="sm">{image.name}</Text>
        <ImageState image={image} />
      </Group>
    ));
}

function StepContent({ step, onPasswordChanged }: { step: Step; onPasswordChanged: () => void }) {
  const { password } = useTexts().welcome;
  switch (step) {
    case 'password':
      return (
        <Stack gap="sm" maw={460}>
          <Title order={2}>{password.title}</Title>
          <Text size="sm">{password.hint}</Text>
          <PasswordForm onChanged={onPasswordChanged} />
        </Stack>
      );
    case 'addresses':
      return <AddressesStep />;
    case 'prices':
      return <PricesStep />;
    case 'instance':
      return <InstanceStep />;
  }
}
