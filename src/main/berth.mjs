/** Starts the program. In JavaScript: later starts load nothing that strips types (17 MB). */
import { enableCompileCache } from 'node:module';

enableCompileCache();
await import('./berth.ts');
