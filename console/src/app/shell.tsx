/** Frame of every page: rail, top bar, and on a phone a bar at the bottom. */
import { ActionIcon, AppShell, Box, Button, Group, Menu, NavLink, Text, UnstyledButton } from '@mantine/core';
import { useHotkeys, useMediaQuery } from '@mantine/hooks';
import { IconDots, IconFlag, IconSearch } from '@tabler/icons-react';
import { Link, Outlet, useLocation } from '@tanstack/react-router';
import { lazy, Suspense, useEffect, useState } from 'react';
import { LostBanner } from '../parts/lost-banner.tsx';
import { useTexts } from '../texts/provider.tsx';
import { useIsNew } from '../pages/welcome/use-is-new.ts';
import { AccountMenu } from './account-menu.tsx';
import { base } from './base.ts';
import { BalanceLine } from './balance-line.tsx';
import { useDocumentTitle } from './document-title.ts';
import { startLive } from './live.ts';
import { isAt, operatorPlacesOf, placesOf, type Place } from './places.ts';
import { useSession } from './session.ts';
import classes from './shell.module.css';

const CommandPalette = lazy(() =>
  import('./command-palette.tsx').then(({ CommandPalette }) => ({ default: CommandPalette })),
);

const isMac = navigator.platform.startsWith('Mac');

export function Shell() {
  const texts = useTexts();
  const session = useSession();
  const places = placesOf(texts);
  const isNew = useIsNew(session);
  const operatorPlaces = [
    ...(isNew ? [{ name: texts.shell.firstSteps, to: '/welcome', icon: IconFlag }] : []),
    ...operatorPlacesOf(texts, session),
  ];
  const isPhone = useMediaQuery('(max-width: 48em)');
  const [isSearching, setSearching] = useState(false);
  useHotkeys([['mod+K', () => setSearching(true)]], []);
  const { username } = session;
  useEffect(() => startLive(username), [username]);
  useDocumentTitle(session);
  return (
    <AppShell
      header={{ height: 48 }}
      navbar={{ width: { sm: 56, lg: 190 }, breakpoint: 'sm', collapsed: { mobile: true } }}
      footer={{ height: 56, collapsed: !isPhone }}
      padding={{ base: 'sm', sm: 'md' }}
    >
      <a className={classes.skip} href="#content">
        {texts.shell.skip}
      </a>
      <AppShell.Header>
        <Group h="100%" px="sm" justify="space-between" wrap="nowrap">
          <Link to="/instances" className={classes.brand} aria-label="Berth">
            <img src={`${base}/icon.svg`} alt="" width={22} height={22} />
            <Text span fw={700} visibleFrom="xs">
              Berth
            </Text>
          </Link>
          <Button
            variant="default"
            c="dimmed"
            leftSection={<IconSearch size={14} />}
            rightSection={<Text size="xs">{isMac ? '⌘K' : 'Ctrl K'}</Text>}
            onClick={() => setSearching(true)}
            visibleFrom="sm"
            w={260}
            justify="space-between"
          >
            {texts.shell.search}
          </Button>
          <Group gap="xs" wrap="nowrap">
            <ActionIcon hiddenFrom="sm" aria-label={texts.shell.search} onClick={() => setSearching(true)} size="lg">
              <IconSearch size={18} />
            </ActionIcon>
            <BalanceLine />
            <AccountMenu session={session} />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p={4} component="nav" aria-label={texts.shell.mainPlaces}>
        {places.map((place) => (
          <PlaceLink key={place.to} place={place} />
        ))}
        {operatorPlaces.length > 0 && (
          <Text size="xs" c="dimmed" px="xs" pt="md" pb={4} visibleFrom="lg">
            {texts.shell.operators}
          </Text>
        )}
        {operatorPlaces.map((place) => (
          <PlaceLink key={place.to} place={place} />
        ))}
      </AppShell.Navbar>
      <AppShell.Main>
        <LostBanner />
        <Box id="content" tabIndex={-1} maw={1900} mx="auto">
          <Suspense fallback={null}>
            <Outlet />
          </Suspense>
        </Box>
      </AppShell.Main>
      {isPhone && <BottomBar places={places} operatorPlaces={operatorPlaces} />}
      {isSearching && (
        <Suspense fallback={null}>
          <CommandPalette onClose={() => setSearching(false)} />
        </Suspense>
      )}
    </AppShell>
  );
}

const useIsHere = (to: string): boolean => isAt(useLocation().pathname, to);

function PlaceLink({ place: { name, to, icon: Icon } }: { place: Place }) {
  return (
    <NavLink
      component={Link}
      to={to}
      label={
        <Text span size="sm" visibleFrom="lg">
          {name}
        </Text>
      }
      aria-label={name}
      title={name}
      active={useIsHere(to)}
      leftSection={<Icon size={18} stroke={1.6} />}
      className={classes.place}
    />
  );
}

/** Four places, and the rest behind a menu. */
function BottomBar({ places, operatorPlaces }: { places: Place[]; operatorPlaces: Place[] }) {
  const { shell } = useTexts();
  return (
    <AppShell.Footer component="nav" aria-label={shell.mainPlaces}>
      <Group h="100%" justify="space-around" wrap="nowrap" gap={0}>
        {places.slice(0, 4).map((place) => (
          <BottomLink key={place.to} place={place} />
        ))}
        <Menu position="top-end">
          <Menu.Target>
            <UnstyledButton className={classes.bottom}>
              <IconDots size={20} stroke={1.6} />
              <Text span size="xs">
                {shell.more}
              </Text>
            </UnstyledButton>
          </Menu.Target>
          <Menu.Dropdown>
            {[...places.slice(4), ...operatorPlaces].map(({ name, to, icon: Icon }) => (
              <Menu.Item key={to} component={Link} to={to} leftSection={<Icon size={16} />}>
                {name}
              </Menu.Item>
            ))}
          </Menu.Dropdown>
        </Menu>
      </Group>
    </AppShell.Footer>
  );
}

function BottomLink({ place: { name, to, icon: Icon } }: { place: Place }) {
  return (
    <Link to={to} className={classes.bottom} data-active={useIsHere(to) || undefined}>
      <Icon size={20} stroke={1.6} />
      <Text span size="xs">
        {name}
      </Text>
    </Link>
  );
}
