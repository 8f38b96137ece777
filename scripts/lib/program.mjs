/** How Node runs the server, for every way to start it. */

/**
 * A small young generation, also for the off-heap memory of buffers: more requests a second and
 * half the memory of an idle connection (`docs/decisions/0032-a-small-young-generation.md`).
 */
const MEMORY = ['--max-semi-space-size=4', '--scavenger-max-new-space-capacity-mb=4'];

/** Arguments of Node to run the server from the repository's root; the server's own follow. */
export const program = [...MEMORY, 'src/main/berth.mjs'];

/** Arguments for another program measured like the server. */
export const asTheServer = MEMORY;
