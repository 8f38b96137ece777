/** The account and this browser: password, second factor, look, variables, quotas. */
import { Grid, Paper, Stack, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { useTexts } from '../../texts/provider.tsx';
import { EnvironmentBlock } from './environment-block.tsx';
import { LookBlock } from './look-block.tsx';
import { PasswordForm } from './password-form.tsx';
import { QuotaBlock } from './quota-block.tsx';
import { SecondFactorBlock } from './second-factor-block.tsx';
import { secondFactorQuery } from './second-factor-query.ts';

export function SettingsPage() {
  const { settings } = useTexts();
  const factor = useQuery(secondFactorQuery);
  const secondFactor = (
    <Block title={settings.secondFactor.title}>
      <SecondFactorBlock query={factor} />
    </Block>
  );
  if (factor.data?.mustSetUp) return secondFactor;
  return (
    <>
      <Title order={1} mb="sm">
        {settings.title}
      </Title>
      <Grid gap="md">
        <Grid.Col span={{ base: 12, md: 6, xl: 4 }}>
          <Stack gap="md">
            <Block title={settings.look.title}>
              <LookBlock />
            </Block>
            <Block title={settings.password.title}>
              <PasswordForm />
            </Block>
            {secondFactor}
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 6, xl: 4 }}>
          <Block title={settings.quotas.title}>
            <QuotaBlock />
          </Block>
        </Grid.Col>
        <Grid.Col span={{ base: 12, xl: 4 }}>
          <Block title={settings.environment.title}>
            <EnvironmentBlock />
          </Block>
        </Grid.Col>
      </Grid>
    </>
  );
}

function Block({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Paper withBorder p="md" component="section" aria-label={title}>
      <Title order={2} mb="xs">
        {title}
      </Title>
      {children}
    </Paper>
  );
}
