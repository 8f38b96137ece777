/** Mantine's links and buttons that lead to a place of the console. */
import {
  Anchor,
  Badge,
  Button,
  Menu,
  type AnchorProps,
  type BadgeProps,
  type ButtonProps,
  type MenuItemProps,
} from '@mantine/core';
import { createLink } from '@tanstack/react-router';
import type { ComponentProps, Ref } from 'react';

type Own<Props> = Props & Omit<ComponentProps<'a'>, keyof Props> & { ref?: Ref<HTMLAnchorElement> };

export const AnchorLink = createLink((props: Own<AnchorProps>) => <Anchor {...props} />);
export const ButtonLink = createLink((props: Own<ButtonProps>) => <Button component="a" {...props} />);
export const MenuLink = createLink((props: Own<MenuItemProps>) => <Menu.Item component="a" {...props} />);
export const BadgeLink = createLink((props: Own<BadgeProps>) => <Badge component="a" {...props} />);
