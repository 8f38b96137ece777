/**
 * Faults that the simulation must find: each is one exact change of one source file, planted in a
 * copy (`planted-copies.ts`). The test names faults that no longer fit the source.
 */
export interface PlantedFault {
  name: string;
  /** Relative to `src/`. */
  file: string;
  /** Occurs exactly once in the file, ignoring whitespace. */
  find: string;
  replace: string;
  /** Effect on a user or the operator. */
  suffers: string;
}

export const plantedFaults: readonly PlantedFault[] = [
  // ---- durability
  {
    name: 'commits-are-not-synced',
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
    name: 'a-refused-request-is-not-rolled-back',
    file: 'store/db/group-commit.ts',
    find: 'statements.rollbackTo();',
    replace: '',
    suffers: 'a launch is refused for want of money, and its capacity is gone',
  },
  // ---- leases and guards
  {
    name: 'a-late-result-overwrites-the-desired-state',
    file: 'store/tables/instances.ts',
    find: ".where('generation', '=', p('leasedGeneration'))",
    replace: '',
    suffers: 'who stops an instance sees it run on: the pass of the start before writes over the stop',
  },
  {
    name: 'a-wake-up-is-lost-at-release',
    file: 'store/db/leases.ts',
    find: 'const woken = sql`${due} <> ${leaseUntil}`;',
    replace: 'const woken = sql`1 = 0`;',
    suffers: 'what was wished while a pass was at work is looked at by nobody',
  },
  {
    name: 'a-heartbeat-drops-the-due-time',
    file: 'store/db/leases.ts',
    find: '${due} = case when ${due} = ${leaseUntil} then ${lease.untilMs} else ${due} end',
    replace: '${due} = ${lease.untilMs}',
    suffers: 'an ssh key that is added while its instance comes up never gets into it',
  },
  {
    name: 'leases-are-not-renewed',
    file: 'control/base/reconcile-loop.ts',
    find: '.write((tx) => heartbeat(tx, table, leaseOwner, { untilMs }))',
    replace: '.write(async () => {})',
    suffers: 'a pull that takes longer than half a minute is begun anew for ever',
  },
  {
    name: 'a-failed-reconcile-is-not-retried',
    file: 'control/base/reconcile-loop.ts',
    find: 'held.signal.aborted ? now() : now() + RETRY_AFTER_FAULT_MS',
    replace: 'null',
    suffers: 'an instance is Starting for ever because the disk was full for a second',
  },
  {
    name: 'a-superseded-reconcile-is-not-aborted',
    file: 'control/base/reconcile-loop.ts',
    find: 'if (held.get(id) !== generation) abort.abort();',
    replace: 'if (held.get(id) !== generation && abort.signal.aborted) abort.abort();',
    suffers: 'who terminates an instance waits until its pull is over',
  },
  // ---- rows and counters
  {
    name: 'the-list-version-is-not-incremented',
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
    name: 'an-idempotent-answer-is-not-stored',
    file: 'control/base/idempotent.ts',
    find: 'await storeAnswer(tx, accountId, record, answer, nowMs);',
    replace: '',
    suffers: 'a launch that is sent again with its key is answered with nothing',
  },
  {
    name: 'an-idempotent-request-runs-twice',
    file: 'control/base/idempotent.ts',
    find: 'if (before) return before.answer;',
    replace: 'if (before?.answer === null) return before.answer;',
    suffers: 'a launch that is sent again with its key is launched and billed twice',
  },
  {
    name: 'capacity-is-released-twice',
    file: 'control/instances/reconcile-context.ts',
    find: 'if (freeCapacity && state.holdsCapacity) {',
    replace: 'if (freeCapacity) {',
    suffers: 'the region promises more than it has',
  },
  {
    name: 'node-ports-are-not-released',
    file: 'control/instances/take-down.ts',
    find: 'await releaseNodePorts(tx, id);',
    replace: '',
    suffers: 'after a month of launches the region has no node port left',
  },
  {
    name: 'mounts-are-not-deleted',
    file: 'control/instances/take-down.ts',
    find: 'await deleteMountsOf(tx, id);',
    replace: '',
    suffers: 'a volume can never be removed again',
  },
  {
    name: 'a-node-port-is-allotted-twice',
    file: 'control/instances/node-ports.ts',
    find: 'if (nodePort !== avoided && (await allotNodePort(tx, region, nodePort, instance.id, port))) return nodePort;',
    replace: 'if (nodePort !== avoided) return nodePort;',
    suffers: 'two instances have the same node port, and one of them does not come up',
  },
  // ---- desired state
  {
    name: 'a-request-does-not-make-its-row-due',
    file: 'control/instances/actions.ts',
    find: 'dueAtMs: nowMs,\n',
    replace: '    dueAtMs: nowMs + 365 * 86_400_000,\n',
    suffers: 'a stop is acknowledged and never done',
  },
  {
    name: 'a-request-keeps-the-old-generation',
    file: 'domain/desired-state.ts',
    find: 'generation: instance.generation + 1,\n    requestedAtMs: nowMs,\n    attempts: 0,',
    replace: '    generation: instance.generation,\n    requestedAtMs: nowMs,\n    attempts: 0,',
    suffers: 'the pass of the wish before writes over the new one',
  },
  {
    name: 'a-released-instance-stays-queued',
    file: 'domain/desired-state.ts',
    find: 'waitsSinceMs: null,\n    waitsUntilMs: null,\n    operation: beginOperation(action, cause, nowMs),',
    replace:
      "    waitsSinceMs: action === 'terminate' ? instance.waitsSinceMs : null,\n    waitsUntilMs: null,\n    operation: beginOperation(action, cause, nowMs),",
    suffers: 'room is kept for one that is gone, and everybody behind it waits for ever',
  },
  {
    name: 'a-newcomer-skips-the-queue',
    file: 'store/tables/capacity.ts',
    find: '.$if(newcomer, (update) => update.where(nobodyWaits))',
    replace: '.$if(newcomer, (update) => update)',
    suffers: 'who waits in line for a GPU sees those who came later get it',
  },
  {
    name: 'a-scheduled-stop-is-not-due',
    file: 'store/tables/instances.ts',
    find: '.set(stopPolicyColumns(instance, region))',
    replace:
      '.set({ stopPolicy: JSON.stringify(instance.stopPolicy), publicText: stopPolicyColumns(instance, region).publicText })',
    suffers: 'an instance that was to stop at night runs, and bills, on',
  },
  // ---- reconciles
  {
    name: 'the-engine-is-called-before-the-allotment-is-stored',
    file: 'control/instances/bring-up.ts',
    find: 'state = await allotPorts(context, state, show);\n    const spec = await engineSpec(context, state.instance);\n    const observation = await callEnsure(context, state.instance, spec);',
    replace:
      'const spec = await engineSpec(context, state.instance);\n    const observation = await callEnsure(context, state.instance, spec);\n    state = await allotPorts(context, state, show);',
    suffers: 'a crash leaves a container that nobody looks for, and that bills',
  },
  {
    name: 'an-archive-is-stored-before-it-is-saved',
    file: 'control/instances/take-down.ts',
    find: "let state = await writeObservation(context, start, { unfinished, observed: { phase: 'Archiving', message: '', ...diagnosisFields('', '') }, });\n",
    replace:
      '  let state = await writeInstance(context, start, { ...instance, archive: { ref, sizeBytes: 0, generation: instance.generation, replaces: [] } });\n',
    suffers: 'a save that fails once takes the root disk with it',
  },
  {
    name: 'an-old-archive-counts-as-the-new-one',
    file: 'domain/plan.ts',
    find: "return archive?.generation === generation ? { do: 'removeKept' } : { do: 'saveRoot' };",
    replace: "return archive !== null ? { do: 'removeKept' } : { do: 'saveRoot' };",
    suffers: 'all work since the archive before is lost',
  },
  {
    name: 'the-old-archive-is-removed-first',
    file: 'control/instances/take-down.ts',
    find: "let state = await writeObservation(context, start, { unfinished, observed: { phase: 'Archiving', message: '', ...diagnosisFields('', '') }, });\n",
    replace:
      "  let state = await writeObservation(context, start, { unfinished, observed: { phase: 'Archiving', message: '', ...diagnosisFields('', '') }, });\n  if (instance.archive) await removeImage(context, instance, instance.archive.ref);\n",
    suffers: 'a second archive that fails leaves neither',
  },
  {
    name: 'an-unreachable-instance-counts-as-absent',
    file: 'domain/plan.ts',
    find: 'export function plan(instance: Instance, observation: InstanceObservation, nowMs: number, limits: Limits): Step {\n',
    replace:
      "export function plan(instance: Instance, actual: InstanceObservation, nowMs: number, limits: Limits): Step {\n  const observation: InstanceObservation = actual.kind === 'unknown' ? { kind: 'absent' } : actual;\n",
    suffers: 'an engine that is away for a minute fails all that runs on it',
  },
  // ---- disks
  {
    name: 'a-copy-source-is-deleted-too-early',
    file: 'control/volumes/reconcile-snapshot.ts',
    find: '!(await isCopySource(store.read, disk)) && ',
    replace: '',
    suffers: 'a restore that was acknowledged fails, because its snapshot was deleted a second later',
  },
  {
    name: 'a-copy-is-created-empty',
    file: 'control/volumes/reconcile-volume.ts',
    find: 'volume.sizeGB, signal, from)',
    replace: 'volume.sizeGB, signal)',
    suffers: 'a restored volume is Bound, and none of its files is there',
  },
  {
    name: 'pool-space-of-a-deleted-disk-is-not-released',
    file: 'store/tables/disks.ts',
    find: 'await reservePoolSpace(tx, { ...disk, sizeGB: -sizeGB });',
    replace: 'void disk;',
    suffers: 'after a month of volumes that came and went the pool is full, and empty',
  },
  {
    name: 'an-incomplete-grow-is-not-resumed',
    file: 'domain/volume.ts',
    find: "if (observation.sizeGB !== null && observation.sizeGB < sizeGB) return { do: 'grow' };",
    replace: '',
    suffers: 'a volume of 40 GB is full at 20',
  },
  // ---- plan and state table
  {
    name: 'a-release-ends-before-clean-up',
    file: 'domain/plan.ts',
    find: "return observation.kind === 'absent' && observed.phase === 'Cleaned' ? { do: 'rest' }",
    replace: "return observation.kind === 'absent' ? { do: 'rest' }",
    suffers: 'what was terminated before it ran keeps its node ports and disks for ever',
  },
  {
    name: 'a-failed-start-shows-stopped',
    file: 'domain/instance-states.ts',
    find: '  Starting: bringUpTransitions,',
    replace: "  Starting: { ...bringUpTransitions, giveUp: 'Stopped' },",
    suffers: 'an instance that could not start looks as if its owner had stopped it',
  },
  {
    name: 'each-retry-restarts-the-deadline',
    file: 'control/instances/bring-up.ts',
    find: "observed: { status, phase: 'DownloadImage', message: '', progress: null, ...why },",
    replace:
      "observed: { status, phase: 'DownloadImage', message: '', progress: null, countedFromMs: deps.now(), ...why },",
    suffers: 'an instance whose image does not exist is Starting for ever, and holds its place',
  },
  {
    name: 'a-disk-in-use-is-unmounted',
    file: 'store/tables/disk-users.ts',
    find: "row('desired', '=', 'running'),\n        row('status', '=', 'Running'),",
    replace: '',
    suffers: 'an instance that is started again while others run with its volume finds it gone from the host',
  },
  {
    name: 'an-unused-disk-stays-mounted',
    file: 'control/volumes/mounts.ts',
    find: 'await storage.unmount(disk);',
    replace: '',
    suffers: 'the host keeps a mount and a loop device for each instance that ever ran',
  },
];
