/** Language, theme and habits, which this browser keeps. */
import { NativeSelect, Stack, Switch, Text, useMantineColorScheme } from '@mantine/core';
import { useSpoken } from '../../texts/provider.tsx';
import { languages, type Language } from '../../texts/texts.ts';
import { useOpensByItself } from '../instance/open-when-ready.ts';

const isLanguage = (text: string): text is Language => text in languages;
const themes = ['light', 'dark', 'auto'] as const;

export function LookBlock() {
  const { texts, language, setLanguage } = useSpoken();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const [opensByItself, setOpensByItself] = useOpensByItself();
  const { look } = texts.settings;
  return (
    <Stack gap="sm">
      <Text size="sm" c="dimmed">
        {look.hint}
      </Text>
      <NativeSelect
        size="sm"
        label={look.language}
        value={language}
        onChange={({ currentTarget: { value } }) => isLanguage(value) && setLanguage(value)}
        data={Object.entries(languages).map(([value, label]) => ({ value, label }))}
      />
      <NativeSelect
        size="sm"
        label={look.theme}
        value={colorScheme}
        onChange={({ currentTarget: { value } }) => setColorScheme(themes.find((one) => one === value) ?? 'auto')}
        data={themes.map((value) => ({ value, label: texts.shell.themes[value] }))}
      />
      <Switch
        label={look.opens}
        checked={opensByItself}
        onChange={({ currentTarget }) => setOpensByItself(currentTarget.checked)}
      />
    </Stack>
  );
}
