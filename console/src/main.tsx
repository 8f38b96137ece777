import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import './app/app.css';
import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { ControlNames } from './app/control-names.tsx';
import { Notices } from './app/notices.tsx';
import { queryClient } from './app/query-client.ts';
import { router } from './app/router.tsx';
import { sessionQuery } from './app/session.ts';
import { reloadForNewFiles } from './app/stale-files.ts';
import { quietColors, styleNonce, theme } from './app/theme.ts';
import { TextsProvider } from './texts/provider.tsx';

// Mantine's dialogs lock the scroll by a style of `react-style-singleton`, which reads this.
Reflect.set(globalThis, '__webpack_nonce__', styleNonce());

reloadForNewFiles();

function show(): void {
  const root = document.querySelector('#root');
  if (root === null) throw new Error('the page has no element #root');
  createRoot(root).render(
    <StrictMode>
      <MantineProvider
        theme={theme}
        cssVariablesResolver={quietColors}
        defaultColorScheme="auto"
        getStyleNonce={styleNonce}
      >
        <TextsProvider>
          <ControlNames>
            <Notices />
            <QueryClientProvider client={queryClient}>
              <RouterProvider router={router} />
            </QueryClientProvider>
          </ControlNames>
        </TextsProvider>
      </MantineProvider>
    </StrictMode>,
  );
}

// A first frame without login and page would delay them: React shows what follows a fallback
// 300 ms later.
void Promise.all([router.load(), queryClient.prefetchQuery(sessionQuery)]).finally(show);
