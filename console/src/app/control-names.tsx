/** Names of the controls that Mantine draws by itself, in the language of the person. */
import { MantineThemeProvider, type MantineThemeOverride } from '@mantine/core';
import { useMemo, type ReactNode } from 'react';
import { useTexts } from '../texts/provider.tsx';

export function ControlNames({ children }: { children: ReactNode }) {
  const { common } = useTexts();
  const theme = useMemo((): MantineThemeOverride => {
    const closeButtonProps = { 'aria-label': common.close };
    return {
      components: {
        Modal: { defaultProps: { closeButtonProps } },
        Drawer: { defaultProps: { closeButtonProps } },
        Notification: { defaultProps: { closeButtonProps } },
        PasswordInput: { defaultProps: { visibilityToggleButtonProps: { 'aria-label': common.showSecret } } },
      },
    };
  }, [common]);
  return (
    <MantineThemeProvider theme={theme} inherit>
      {children}
    </MantineThemeProvider>
  );
}
