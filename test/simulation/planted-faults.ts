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
    file: 'store/db/sqlite.ts',
    find: "'pragma synchronous = full',",
    replace: "'pragma synchronous = off',",
    suffers: 'a power cut takes back what was acknowledged',
  },
  {
    name: 'answered-before-the-commit',
    file: 'store/db/group-commit.ts',
    find: 'return { ok: true, value };\n',
    replace: '      job.resolve(value);\n      return { ok: true, value };\n',
    suffers: 'a launch is acknowledged, the disk is full, and there is none',
  },
  {
    name: 'half-of-a-refused-deed-stays',
    file: 'store/db/group-commit.ts',
    find: 'statements.rollbackTo();',
    replace: '',
    suffers: 'a launch is refused for want of money, and its capacity is gone',
  },
  // ---- leases and guards
  {
    name: 'a-late-result-overwrites-the-wish',
    file: 'store/tables/instances.ts',
    find: ".where('generation', '=', p('heldGeneration'))",
    replace: '',
    suffers: 'who stops an instance sees it run on: the pass of the start before writes over the stop',
  },
  {
    name: 'a-wake-is-lost-at-release',
    file: 'store/db/leases.ts',
    find: 'const woken = sql`${due} <> ${leaseUntil}`;',
    replace: 'const woken = sql`1 = 0`;',
    suffers: 'what was wished while a pass was at work is looked at by nobody',
  },
  {
    name: 'a-heartbeat-forgets-who-asked',
    file: 'store/db/leases.ts',
    find: '${due} = case when ${due} = ${leaseUntil} then ${lease.untilMs} else ${due} end',
    replace: '${due} = ${lease.untilMs}',
    suffers: 'an ssh key that is added while its instance comes up never gets into it',
  },
  {
    name: 'leases-are-not-prolonged',
    file: 'control/base/reconcile-loop.ts',
    find: '.write((tx) => heartbeat(tx, table, leaseOwner, { untilMs }))',
    replace: '.write(async () => {})',
    suffers: 'a pull that takes longer than half a minute is begun anew for ever',
  },
  {
    name: 'a-pass-that-failed-is-not-tried-again',
    file: 'control/base/reconcile-loop.ts',
    find: 'held.signal.aborted ? now() : now() + RETRY_AFTER_FAULT_MS',
    replace: 'null',
    suffers: 'an instance is Starting for ever because the disk was full for a second',
  },
  {
    name: 'overtaken-passes-work-on',
    file: 'control/base/reconcile-loop.ts',
    find: 'if (held.get(id) !== generation) abort.abort();',
    replace: 'if (held.get(id) !== generation && abort.signal.aborted) abort.abort();',
    suffers: 'who terminates an instance waits until its pull is over',
  },
  // ---- records and counts
  {
    name: 'the-version-stands-still',
    file: 'store/tables/events.ts',
    find: "eventSeq: eb('eventSeq', '+', 1),\n      version: eb('version', '+', 1),\n",
    replace: "      eventSeq: eb('eventSeq', '+', 1),\n",
    suffers: 'a list shows the instance that was just terminated as running',
  },
  {
    name: 'an-event-number-is-skipped',
    file: 'store/tables/events.ts',
    find: "eventSeq: eb('eventSeq', '+', 1),",
    replace: "eventSeq: eb('eventSeq', '+', eb.ref('eventSeq')),",
    suffers: 'whoever follows the events waits for one that never was',
  },
  {
    name: 'a-keyed-answer-is-forgotten',
    file: 'control/base/idempotent.ts',
    find: 'await storeAnswer(tx, accountId, record, answer, nowMs);',
    replace: '',
    suffers: 'a launch that is sent again with its key is answered with nothing',
  },
  {
    name: 'a-keyed-deed-is-done-again',
    file: 'control/base/idempotent.ts',
    find: 'if (before) return before.answer;',
    replace: 'if (before?.answer === null) return before.answer;',
    suffers: 'a launch that is sent again with its key is launched and billed twice',
  },
  {
    name: 'capacity-is-given-back-twice',
    file: 'control/instances/work.ts',
    find: 'if (more.freeCapacity && work.holdsCapacity) {',
    replace: 'if (more.freeCapacity) {',
    suffers: 'the region promises more than it has',
  },
  {
    name: 'a-released-ones-ports-stay-taken',
    file: 'control/instances/put-away.ts',
    find: 'await releaseNodePorts(tx, id);',
    replace: '',
    suffers: 'after a month of launches the region has no node port left',
  },
  {
    name: 'a-released-one-still-mounts',
    file: 'control/instances/put-away.ts',
    find: 'await deleteMountsOf(tx, id);',
    replace: '',
    suffers: 'a volume can never be removed again',
  },
  {
    name: 'a-port-is-drawn-blindly',
    file: 'control/instances/node-ports.ts',
    find: 'if (nodePort !== avoided && (await allotNodePort(tx, region, nodePort, instance.id, port))) return nodePort;',
    replace: 'if (nodePort !== avoided) return nodePort;',
    suffers: 'two instances have the same node port, and one of them does not come up',
  },
  // ---- wishes
  {
    name: 'a-wish-makes-nobody-due',
    file: 'control/instances/actions.ts',
    find: 'dueAtMs: nowMs,\n',
    replace: '    dueAtMs: nowMs + 365 * 86_400_000,\n',
    suffers: 'a stop is acknowledged and never done',
  },
  {
    name: 'a-wish-is-no-new-one',
    file: 'domain/desired-state.ts',
    find: 'generation: instance.generation + 1,',
    replace: 'generation: instance.generation,',
    suffers: 'the pass of the wish before writes over the new one',
  },
  {
    name: 'a-released-one-stays-in-line',
    file: 'domain/desired-state.ts',
    find: 'waitsSinceMs: null,\n    waitsUntilMs: null,\n    operation: beginOperation(action, cause, nowMs),',
    replace:
      "    waitsSinceMs: action === 'terminate' ? instance.waitsSinceMs : null,\n    waitsUntilMs: null,\n    operation: beginOperation(action, cause, nowMs),",
    suffers: 'room is kept for one that is gone, and everybody behind it waits for ever',
  },
  {
    name: 'a-newcomer-passes-the-line',
    file: 'store/tables/capacity.ts',
    find: '.$if(newcomer, (update) => update.where(nobodyWaits))',
    replace: '.$if(newcomer, (update) => update)',
    suffers: 'who waits in line for a GPU sees those who came later get it',
  },
  {
    name: 'a-set-time-is-not-looked-for',
    file: 'store/tables/stop-policy.ts',
    find: '.set(stopPolicyColumns(instance, region))',
    replace:
      '.set({ stopPolicy: JSON.stringify(instance.stopPolicy), publicText: stopPolicyColumns(instance, region).publicText })',
    suffers: 'an instance that was to stop at night runs, and bills, on',
  },
  // ---- passes
  {
    name: 'asked-before-it-is-written-down',
    file: 'control/instances/bring-up.ts',
    find: 'await allot(work, show);\n    const spec = await engineSpec(work);\n    await bringUp(work, spec);',
    replace: 'const spec = await engineSpec(work);\n    await bringUp(work, spec);\n    await allot(work, show);',
    suffers: 'a crash leaves a container that nobody looks for, and that bills',
  },
  {
    name: 'an-archive-is-written-down-before-it-is-kept',
    file: 'control/instances/put-away.ts',
    find: "await note(work, { unfinished, observed: { phase: 'Archiving', message: '', ...diagnosisFields('', '') } });\n",
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
    file: 'control/instances/put-away.ts',
    find: "await note(work, { unfinished, observed: { phase: 'Archiving', message: '', ...diagnosisFields('', '') } });\n",
    replace:
      "  await note(work, { unfinished, observed: { phase: 'Archiving', message: '', ...diagnosisFields('', '') } });\n  if (instance.archive) await removeImage(work, instance.archive.ref);\n",
    suffers: 'a second archive that fails leaves neither',
  },
  {
    name: 'what-is-away-is-gone',
    file: 'domain/plan.ts',
    find: 'export function plan(instance: Instance, observation: InstanceObservation, nowMs: number, limits: Limits): Step {\n',
    replace:
      "export function plan(instance: Instance, actual: InstanceObservation, nowMs: number, limits: Limits): Step {\n  const observation: InstanceObservation = actual.kind === 'unknown' ? { kind: 'absent' } : actual;\n",
    suffers: 'an engine that is away for a minute fails all that runs on it',
  },
  // ---- disks
  {
    name: 'a-source-goes-while-it-is-copied',
    file: 'control/volumes/reconcile-snapshot.ts',
    find: '!(await isCopySource(store.read, disk)) && ',
    replace: '',
    suffers: 'a restore that was acknowledged fails, because its snapshot was deleted a second later',
  },
  {
    name: 'a-copy-begins-empty',
    file: 'control/volumes/reconcile-volume.ts',
    find: 'volume.sizeGB, signal, from)',
    replace: 'volume.sizeGB, signal)',
    suffers: 'a restored volume is Bound, and none of its files is there',
  },
  {
    name: 'room-of-a-gone-disk-stays-promised',
    file: 'store/tables/disks.ts',
    find: 'await reservePoolSpace(tx, { ...disk, sizeGB: -sizeGB });',
    replace: 'void disk;',
    suffers: 'after a month of volumes that came and went the pool is full, and empty',
  },
  {
    name: 'a-growth-is-left-half-done',
    file: 'domain/volume.ts',
    find: "if (observation.sizeGB !== null && observation.sizeGB < sizeGB) return { do: 'grow' };",
    replace: '',
    suffers: 'a volume of 40 GB is full at 20',
  },
  // ---- the plan and the table
  {
    name: 'a-released-one-rests-too-early',
    file: 'domain/plan.ts',
    find: "return observation.kind === 'absent' && observed.phase === 'Cleaned' ? { do: 'rest' }",
    replace: "return observation.kind === 'absent' ? { do: 'rest' }",
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
    name: 'each-try-begins-the-deadline-anew',
    file: 'control/instances/bring-up.ts',
    find: "observed: { status, phase: 'DownloadImage', message: '', progress: null, ...why },",
    replace:
      "observed: { status, phase: 'DownloadImage', message: '', progress: null, countedFromMs: deps.now(), ...why },",
    suffers: 'an instance whose image does not exist is Starting for ever, and holds its place',
  },
  {
    name: 'what-runs-is-unmounted',
    file: 'store/tables/disk-users.ts',
    find: "row('desired', '=', 'running'),\n        row('status', '=', 'Running'),",
    replace: '',
    suffers: 'an instance that is started again while others run with its volume finds it gone from the host',
  },
  {
    name: 'what-rests-stays-mounted',
    file: 'control/volumes/unmount.ts',
    find: 'await storage.unmount(disk);',
    replace: '',
    suffers: 'the host keeps a mount and a loop device for each instance that ever ran',
  },
];
