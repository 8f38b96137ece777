/** Look: one accent colour, small text, a grid of 4 px. */
import { createTheme, type CSSVariablesResolver } from '@mantine/core';

/** Nonce of this page for styles that scripts add (`Content-Security-Policy`). */
export const styleNonce = (): string =>
  document.querySelector<HTMLMetaElement>('meta[name="style-nonce"]')?.content ?? '';

export const theme = createTheme({
  primaryColor: 'berth',
  primaryShade: { light: 8, dark: 8 },
  colors: {
    berth: [
      '#e6f7f9',
      '#cfebef',
      '#a1d6de',
      '#70c0cd',
      '#48aebf',
      '#2fa2b6',
      '#1b99ae',
      '#078697',
      '#007582',
      '#00616d',
    ],
  },
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans SC", sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, monospace',
  fontSizes: { xs: '12px', sm: '13px', md: '14px', lg: '16px', xl: '20px' },
  headings: {
    fontWeight: '600',
    sizes: { h1: { fontSize: '20px' }, h2: { fontSize: '16px' }, h3: { fontSize: '14px' } },
  },
  defaultRadius: 'sm',
  cursorType: 'pointer',
  respectReducedMotion: true,
  components: {
    Button: { defaultProps: { size: 'xs' } },
    ActionIcon: { defaultProps: { variant: 'subtle', color: 'gray' } },
    InputWrapper: { styles: { description: { fontSize: 'var(--mantine-font-size-xs)' } } },
    TextInput: { defaultProps: { size: 'sm' } },
    Tooltip: {
      defaultProps: {
        withArrow: true,
        openDelay: 250,
        multiline: true,
        maw: 360,
        events: { hover: true, focus: true, touch: true },
      },
    },
    Menu: { defaultProps: { transitionProps: { duration: 100 } } },
    Modal: { defaultProps: { transitionProps: { duration: 120 } } },
  },
});

/** Quiet text still has a contrast of 4.5 to 1 on every ground that it stands on. */
export const quietColors: CSSVariablesResolver = () => ({
  variables: {},
  light: { '--mantine-color-dimmed': '#5c636a', '--mantine-color-placeholder': '#6b7279' },
  dark: { '--mantine-color-dimmed': '#a0a0a0', '--mantine-color-placeholder': '#959595' },
});
