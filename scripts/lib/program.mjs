/** How Node is to run the server, by whatever it is started. */

/**
 * A small young generation, also for what buffers hold outside of the heap: more requests a second and half the memory of an idle
 * connection (`docs/decisions/0032-a-small-young-generation.md`).
 */
const MEMORY = ['--max-semi-space-size=4', '--scavenger-max-new-space-capacity-mb=4'];

/** What Node is given to run the server; its own arguments follow. From the root of the repository. */
export const program = [...MEMORY, 'src/main/berth.ts'];

/** The same for another program that is to be measured as the server. */
export const asTheServer = MEMORY;
