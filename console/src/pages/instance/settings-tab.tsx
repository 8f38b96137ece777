/** What can be changed about an instance, and when each change counts. */
import { useTexts } from '../../texts/provider.tsx';
import { EnvironmentForm } from './environment-form.tsx';
import classes from './instance.module.css';
import { NameForm } from './name-form.tsx';
import { RenewalForm } from './renewal-form.tsx';
import { ScheduleForm } from './schedule-form.tsx';
import { StartCommandForm } from './start-command-form.tsx';
import type { TabProps } from './tab-props.ts';
import { TypeForm } from './type-form.tsx';
import { WakeForm } from './wake-form.tsx';

export function SettingsTab({ view }: TabProps) {
  const { settings } = useTexts().instance;
  return (
    <div className={classes.cards} aria-label={settings.title} role="group">
      <NameForm view={view} />
      <ScheduleForm view={view} />
      <WakeForm view={view} />
      <TypeForm view={view} />
      <RenewalForm view={view} />
      <StartCommandForm view={view} />
      <EnvironmentForm view={view} />
    </div>
  );
}
