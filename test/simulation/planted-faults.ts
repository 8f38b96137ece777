/**
 * Faults that the simulation must find: each is one exact change of one source file, as a tired hand could make it. They are planted in a
 * copy, never here (`planted-copies.ts`). A source that has moved on makes its fault inapplicable; the test says so at once.
 */
export interface PlantedFault {
  name: string;
  /** Below `src/`. */
  file: string;
  /** Occurs exactly once in it, however it is wrapped. */
  find: string;
  replace: string;
  /** What a user or the operator would live to see. */
  suffers: string;
}

export const plantedFaults: readonly PlantedFault[] = [
  // ---- what is durable
  {
    name: 'nothing-is-synced',
    file: 'store/sqlite.ts',
    find: "'pragma synchronous = full',",
    replace: "'pragma synchronous = off',",
    suffers: 'a power cut takes back what was acknowledged',
  },
  {
    name: 'answered-before-the-commit',
    file: 'store/group-commit.ts',
    find: 'return { ok: true, value };\n',
    replace: '      job.resolve(value);\n      return { ok: true, value };\n',
    suffers: 'a launch is acknowledged, the disk is full, and there is none',
  },
  {
    name: 'half-of-a-refused-deed-stays',
    file: 'store/group-commit.ts',
    find: 'statements.rollbackTo();',
    replace: '',
    suffers: 'a launch is refused for want of money, and its capacity is gone',
  },
  // ---- leases and guards
  {
    name: 'a-late-result-overwrites-the-wish',
    file: 'store/instances.ts',
    find: ".where('generation', '=', p('heldGeneration'))",
    replace: '',
    suffers: 'who stops an instance sees it run on: the pass of the start before writes over the stop',
  },
  {
    name: 'a-result-is-written-without-the-lease',
    file: 'store/instances.ts',
    find: ".where('leaseToken', '=', p('leaseToken'))",
    replace: '',
    suffers: 'a pass whose lease ran out writes over what the next one found',
  },
  {
    name: 'a-held-row-is-claimed',
    file: 'store/leases.ts',
    find: 'and (${leaseUntil} is null or ${leaseUntil} <= ${nowMs})`;',
    replace: '`;',
    suffers: 'two passes work on one instance at once',
  },
  {
    name: 'another-ones-lease-is-given-back',
    file: 'store/leases.ts',
    find: 'where id = ${id} and ${leaseToken} = ${token}`',
    replace: 'where id = ${id}`',
    suffers: 'a pass that was overtaken frees the row of the one that works on it',
  },
  {
    name: 'a-wake-is-lost-at-release',
    file: 'store/leases.ts',
    find: 'const woken = sql`${due} <> ${leaseUntil}`;',
    replace: 'const woken = sql`1 = 0`;',
    suffers: 'what was wished while a pass was at work is looked at by nobody',
  },
  {
    name: 'a-heartbeat-forgets-who-asked',
    file: 'store/leases.ts',
    find: '${due} = case when ${due} = ${leaseUntil} then ${lease.untilMs} else ${due} end',
    replace: '${due} = ${lease.untilMs}',
    suffers: 'an ssh key that is added while its instance comes up never gets into it',
  },
  {
    name: 'leases-are-not-prolonged',
    file: 'control/loop.ts',
    find: '.write((tx) => heartbeat(tx, table, leaseOwner, { untilMs }))',
    replace: '.write(async () => {})',
    suffers: 'a pull that takes longer than half a minute is begun anew for ever',
  },
  {
    name: 'a-pass-that-failed-is-not-tried-again',
    file: 'control/loop.ts',
    find: 'held.signal.aborted ? now() : now() + RETRY_AFTER_FAULT_MS',
    replace: 'null',
    suffers: 'an instance is Starting for ever because the disk was full for a second',
  },
  {
    name: 'overtaken-passes-work-on',
    file: 'control/loop.ts',
    find: 'if (held.get(id) !== generation) abort.abort();',
    replace: 'if (held.get(id) !== generation && abort.signal.aborted) abort.abort();',
    suffers: 'who terminates an instance waits until its pull is over',
  },
  // ---- records and counts
  {
    name: 'the-version-stands-still',
    file: 'store/events.ts',
    find: "eventSeq: eb('eventSeq', '+', 1),\n      version: eb('version', '+', 1),\n",
    replace: "      eventSeq: eb('eventSeq', '+', 1),\n",
    suffers: 'a list shows the instance that was just terminated as running',
  },
  {
    name: 'an-event-number-is-skipped',
    file: 'store/events.ts',
    find: "eventSeq: eb('eventSeq', '+', 1),",
    replace: "eventSeq: eb('eventSeq', '+', eb.ref('eventSeq')),",
    suffers: 'whoever follows the events waits for one that never was',
  },
  {
    name: 'a-keyed-answer-is-forgotten',
    file: 'control/once.ts',
    find: 'await remember(tx, accountId, record, answer, nowMs);',
    replace: '',
    suffers: 'a launch that is sent again with its key is answered with nothing',
  },
  {
    name: 'a-keyed-deed-is-done-again',
    file: 'control/once.ts',
    find: 'if (before) return before.answer;',
    replace: 'if (before?.answer === null) return before.answer;',
    suffers: 'a launch that is sent again with its key is launched and billed twice',
  },
  {
    name: 'keys-are-forgotten-soon',
    file: 'control/passes/tidy.ts',
    find: 'const ANSWERS_KEPT_MS = 24 * 3_600_000;',
    replace: 'const ANSWERS_KEPT_MS = 24 * 1_000;',
    suffers: 'a client that could not reach the server for a minute launches twice with one key',
  },
  {
    name: 'capacity-is-kept',
    file: 'control/passes/work.ts',
    find: "await note(work, { observed, desired: 'stopped' }, { freeCapacity: true });",
    replace: "await note(work, { observed, desired: 'stopped' });",
    suffers: 'an instance that failed to start keeps its GPU from all others',
  },
  {
    name: 'capacity-is-given-back-twice',
    file: 'control/passes/work.ts',
    find: 'if (more.freeCapacity && work.holdsCapacity) {',
    replace: 'if (more.freeCapacity) {',
    suffers: 'the region promises more than it has',
  },
  {
    name: 'the-last-gpu-is-given-twice',
    file: 'store/capacity.ts',
    find: ".where(room('gpusUsed', 'gpusTotal', 'gpus'))",
    replace: '',
    suffers: 'two launches are accepted for the last GPU, and one of them never starts',
  },
  {
    name: 'a-released-ones-ports-stay-taken',
    file: 'control/passes/put-away.ts',
    find: 'await freeNodePorts(tx, id);',
    replace: '',
    suffers: 'after a month of launches the region has no node port left',
  },
  {
    name: 'a-released-one-still-mounts',
    file: 'control/passes/put-away.ts',
    find: 'await forgetMounts(tx, id);',
    replace: '',
    suffers: 'a volume can never be removed again',
  },
  {
    name: 'a-taken-port-stays-its-own',
    file: 'control/passes/bring-up.ts',
    find: 'await freeNodePort(tx, instance.id, taken);',
    replace: '',
    suffers: 'node ports leak with each program of the host that takes one',
  },
  {
    name: 'a-port-is-drawn-blindly',
    file: 'control/passes/node-ports.ts',
    find: 'if (nodePort !== avoided && (await takeNodePort(tx, region, nodePort, instance.id, port))) return nodePort;',
    replace: 'if (nodePort !== avoided) return nodePort;',
    suffers: 'two instances have the same node port, and one of them does not come up',
  },
  // ---- wishes
  {
    name: 'a-wish-makes-nobody-due',
    file: 'control/actions.ts',
    find: 'dueAtMs: nowMs,\n',
    replace: '    dueAtMs: nowMs + 365 * 86_400_000,\n',
    suffers: 'a stop is acknowledged and never done',
  },
  {
    name: 'a-wish-is-no-new-one',
    file: 'domain/wish.ts',
    find: 'generation: instance.generation + 1,',
    replace: 'generation: instance.generation,',
    suffers: 'the pass of the wish before writes over the new one',
  },
  {
    name: 'a-released-one-stays-in-line',
    file: 'domain/wish.ts',
    find: 'waitsSinceMs: null,\n    waitsUntilMs: null,\n    operation: beginOperation(action, cause, nowMs),',
    replace:
      "    waitsSinceMs: action === 'terminate' ? instance.waitsSinceMs : null,\n    waitsUntilMs: null,\n    operation: beginOperation(action, cause, nowMs),",
    suffers: 'room is kept for one that is gone, and everybody behind it waits for ever',
  },
  {
    name: 'a-newcomer-passes-the-line',
    file: 'store/capacity.ts',
    find: '.$if(newcomer, (update) => update.where(nobodyWaits))',
    replace: '.$if(newcomer, (update) => update)',
    suffers: 'who waits in line for a GPU sees those who came later get it',
  },
  {
    name: 'the-line-is-told-of-no-room',
    file: 'control/line.ts',
    find: 'if (one.isOn && (await countCapacity(tx, region, type, 1))) return null;',
    replace: 'if (one.isOn && (await countCapacity(tx, region, type, 0 as 1))) return null;',
    suffers: 'what waited in line runs uncounted, and the region is overbooked',
  },
  {
    name: 'a-set-time-is-not-looked-for',
    file: 'store/ends.ts',
    find: '.set(endsColumns(instance, region))',
    replace: '.set({ ends: JSON.stringify(instance.ends), publicText: endsColumns(instance, region).publicText })',
    suffers: 'an instance that was to stop at night runs, and bills, on',
  },
  {
    name: 'a-pass-writes-over-the-set-time',
    file: 'store/instances.ts',
    find: ".where('ends', '=', p('heldEnds'))",
    replace: '',
    suffers: 'the time that was set is shown, and nothing happens when it comes',
  },
  // ---- passes
  {
    name: 'asked-before-it-is-written-down',
    file: 'control/passes/bring-up.ts',
    find: 'nodePorts, everEnsured: true, mustHalt: false, observed',
    replace: 'nodePorts, mustHalt: false, observed',
    suffers: 'a crash leaves a container that nobody looks for, and that bills',
  },
  {
    name: 'an-archive-is-written-down-before-it-is-kept',
    file: 'control/passes/put-away.ts',
    find: "await note(work, { unfinished, observed: { phase: 'Archiving', message: '', ...diagnosed('', '') } });\n",
    replace:
      '  await keep(work, { ...instance, archive: { ref, sizeBytes: 0, generation: instance.generation, replaces: [] } });\n',
    suffers: 'a save that fails once takes the root disk with it',
  },
  {
    name: 'an-old-archive-passes-for-the-new-one',
    file: 'domain/plan.ts',
    find: "return archive?.generation === generation ? { do: 'removeKept' } : { do: 'saveRoot' };",
    replace: "return archive !== null ? { do: 'removeKept' } : { do: 'saveRoot' };",
    suffers: 'all work since the archive before is lost',
  },
  {
    name: 'the-old-archive-goes-first',
    file: 'control/passes/put-away.ts',
    find: "await note(work, { unfinished, observed: { phase: 'Archiving', message: '', ...diagnosed('', '') } });\n",
    replace:
      "  await note(work, { unfinished, observed: { phase: 'Archiving', message: '', ...diagnosed('', '') } });\n  if (instance.archive) await removeImage(work, instance.archive.ref);\n",
    suffers: 'a second archive that fails leaves neither',
  },
  {
    name: 'a-late-container-is-left',
    file: 'control/passes/put-away.ts',
    find: 'if (everEnsured) await hands.engine.destroy(id, quick(work));',
    replace: "if (everEnsured && observed.phase === 'Cleaning') await hands.engine.destroy(id, quick(work));",
    suffers: 'a container that comes back by a late answer of the engine runs for ever',
  },
  {
    name: 'what-is-away-is-gone',
    file: 'domain/plan.ts',
    find: 'export function plan(instance: Instance, seen: Seen, nowMs: number, limits: Limits): Step {\n',
    replace:
      "export function plan(instance: Instance, sight: Seen, nowMs: number, limits: Limits): Step {\n  const seen: Seen = sight.kind === 'unknown' ? { kind: 'absent' } : sight;\n",
    suffers: 'an engine that is away for a minute fails all that runs on it',
  },
  {
    name: 'a-stray-is-judged-at-first-sight',
    file: 'domain/stray.ts',
    find: 'watchedMs > 0;',
    replace: 'watchedMs >= 0;',
    suffers: 'what is listed while it is made or removed is taken for a stray',
  },
  {
    name: 'a-mounted-volume-is-removed',
    file: 'control/passes/volume-pass.ts',
    find: 'if ((await mountersOf(store.read, volume.id)).length > 0) return',
    replace: 'if ((await mountersOf(store.read, volume.id)).length > 99) return',
    suffers: 'the files of a volume go while a container still writes to them',
  },
  {
    name: 'a-volume-is-deleted-under-an-instance',
    file: 'control/volumes.ts',
    find: 'if (living.length > 0) {',
    replace: 'if (living.length > 1) {',
    suffers: 'an instance can never be started again, because its volume was deleted',
  },
  {
    name: 'new-keys-wait-for-a-restart',
    file: 'store/instances.ts',
    find: '.set({ dueAtMs: nowMs, filesStale: 1 })',
    replace: '.set({ filesStale: 1 })',
    suffers: 'an ssh key that was deleted still lets in',
  },
  {
    name: 'released-ones-vanish-early',
    file: 'control/make-control.ts',
    find: 'const RELEASED_LISTED_MS = 3_600_000;',
    replace: 'const RELEASED_LISTED_MS = 60_000;',
    suffers: 'who looks for what became of an instance finds nothing',
  },
  // ---- the plan and the table
  {
    name: 'stopped-without-looking',
    file: 'domain/plan.ts',
    find: "const { observed } = instance;\n  if (seen.kind === 'present' && seen.running) return halt(instance, nowMs, limits);\n  // One",
    replace: '  const { observed } = instance;\n  // One',
    suffers: 'an instance says Stopped, and runs',
  },
  {
    name: 'a-released-one-rests-too-early',
    file: 'domain/plan.ts',
    find: "return seen.kind === 'absent' && observed.phase === 'Cleaned' ? { do: 'rest' }",
    replace: "return seen.kind === 'absent' ? { do: 'rest' }",
    suffers: 'what was terminated before it ran keeps its node ports and disks for ever',
  },
  {
    name: 'a-failed-start-says-stopped',
    file: 'domain/instance-states.ts',
    find: "Starting: {\n    pull: 'PullingImage',\n    imageFails: 'Starting',\n    create: 'Starting',\n    made: 'Starting',\n    ready: 'Running',\n    end: 'Starting',\n    giveUp: 'StartingFailed',",
    replace:
      "  Starting: {\n    pull: 'PullingImage',\n    imageFails: 'Starting',\n    create: 'Starting',\n    made: 'Starting',\n    ready: 'Running',\n    end: 'Starting',\n    giveUp: 'Stopped',",
    suffers: 'an instance that could not start looks as if its owner had stopped it',
  },
  {
    name: 'a-restart-never-ends',
    file: 'control/passes/bring-up.ts',
    find: 'everEnsured: true, mustHalt: false, observed',
    replace: 'everEnsured: true, observed',
    suffers: 'a restarted instance is stopped again and again',
  },
  {
    name: 'each-try-begins-the-deadline-anew',
    file: 'control/passes/bring-up.ts',
    find: "observed: { status, phase: 'DownloadImage', message: '', progress: null, ...why },",
    replace:
      "observed: { status, phase: 'DownloadImage', message: '', progress: null, countedFromMs: needs.now(), ...why },",
    suffers: 'an instance whose image does not exist is Starting for ever, and holds its place',
  },
  {
    name: 'a-wish-leaves-no-history',
    file: 'store/instances.ts',
    find: 'await keepOperation(tx, instance.ownerId, { ...before, subjectId: instance.id }, instance.wishedAtMs);',
    replace: '',
    suffers: 'who asks how his operation ended is told that there never was one',
  },
];
