import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin } from 'vite';
import { withoutDescriptions } from './without-descriptions.ts';

/**
 * Chromium compiles the functions of the first file while it loads, not one by one when they are
 * called (https://v8.dev/blog/explicit-compile-hints).
 */
const compileHint: Plugin = {
  name: 'compile-hint',
  apply: 'build',
  generateBundle: {
    order: 'post',
    handler(_, files) {
      for (const file of Object.values(files))
        if (file.type === 'chunk' && file.isEntry) file.code = `//# allFunctionsCalledOnLoad\n${file.code}`;
    },
  },
};

/** Files with hashed names below `/console-assets`; the API serves pages and files. */
export default defineConfig({
  root: import.meta.dirname,
  // Files name each other by relative addresses: a proxy may put all below a path.
  base: './',
  plugins: [withoutDescriptions(), compileHint],
  resolve: { alias: { zod: fileURLToPath(new URL('trusting-zod.ts', import.meta.url)) } },
  build: {
    outDir: '../dist/console',
    emptyOutDir: true,
    assetsDir: 'console-assets',
    // Fonts and pictures stay files: the policy of the pages allows no data URL.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1_000,
    target: 'es2023',
    rolldownOptions: {
      // All that the first page needs is one file: each more is another request.
      output: { codeSplitting: { groups: [{ name: 'first', tags: ['$initial'] }] } },
      // Packages mark their modules for servers that render; nothing renders here.
      onLog: (level, log, handle) => (log.code === 'MODULE_LEVEL_DIRECTIVE' ? undefined : handle(level, log)),
    },
  },
  server: {
    proxy: { '/api': process.env['BERTH_API'] ?? 'http://127.0.0.1:8080' },
  },
});
