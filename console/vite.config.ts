import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';
import { withoutDescriptions } from './without-descriptions.ts';

/** Files with hashed names below `/console-assets`; the API serves pages and files. */
export default defineConfig({
  root: import.meta.dirname,
  plugins: [withoutDescriptions()],
  resolve: { alias: { zod: fileURLToPath(new URL('trusting-zod.ts', import.meta.url)) } },
  build: {
    outDir: '../dist/console',
    emptyOutDir: true,
    assetsDir: 'console-assets',
    // Fonts and pictures stay files: the policy of the pages allows no data URL.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // The first page needs most of what is shared: one file is quicker than many.
    chunkSizeWarningLimit: 1_000,
    target: 'es2023',
    rolldownOptions: {
      // Packages mark their modules for servers that render; nothing renders here.
      onLog: (level, log, handle) => (log.code === 'MODULE_LEVEL_DIRECTIVE' ? undefined : handle(level, log)),
    },
  },
  server: {
    proxy: { '/api': process.env['BERTH_API'] ?? 'http://127.0.0.1:8080' },
  },
});
