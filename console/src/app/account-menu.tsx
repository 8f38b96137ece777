import { ActionIcon, Menu, useMantineColorScheme, type MantineColorScheme } from '@mantine/core';
import {
  IconCheck,
  IconDeviceDesktop,
  IconLanguage,
  IconLogout,
  IconMoon,
  IconSun,
  IconUser,
} from '@tabler/icons-react';
import { useSpoken } from '../texts/provider.tsx';
import { languages, type Language } from '../texts/texts.ts';
import { api } from './api.ts';
import { base } from './base.ts';
import type { Session } from './session.ts';

const themes = [
  ['light', IconSun],
  ['dark', IconMoon],
  ['auto', IconDeviceDesktop],
] as const satisfies readonly (readonly [MantineColorScheme, unknown])[];

const languageTags: readonly Language[] = ['en', 'zh'];

async function logOut(): Promise<void> {
  await api.logout().catch(() => {});
  // The login provider, if the login was of one; else the login page.
  window.location.assign(`${base}/api/user/oidc/logout`);
}

export function AccountMenu({ session }: { session: Session }) {
  const { texts, language, setLanguage } = useSpoken();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const { shell } = texts;
  return (
    <Menu position="bottom-end" width={220} closeOnItemClick={false}>
      <Menu.Target>
        <ActionIcon size="lg" aria-label={shell.account(session.username)}>
          <IconUser size={18} stroke={1.6} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{session.username}</Menu.Label>
        <Menu.Label>{shell.theme}</Menu.Label>
        {themes.map(([theme, Icon]) => (
          <Menu.Item
            key={theme}
            leftSection={<Icon size={16} />}
            rightSection={theme === colorScheme && <IconCheck size={14} />}
            onClick={() => setColorScheme(theme)}
          >
            {shell.themes[theme]}
          </Menu.Item>
        ))}
        <Menu.Label>{shell.language}</Menu.Label>
        {languageTags.map((tag) => (
          <Menu.Item
            key={tag}
            lang={tag}
            leftSection={<IconLanguage size={16} />}
            rightSection={tag === language && <IconCheck size={14} />}
            onClick={() => setLanguage(tag)}
          >
            {languages[tag]}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item leftSection={<IconLogout size={16} />} onClick={() => void logOut()}>
          {shell.logOut}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
