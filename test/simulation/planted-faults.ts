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
    suffers: 'a power cut loses acknowledged writes',
  },
  {
    name: 'answered-before-the-commit',
    file: 'store/db/group-commit.ts',
    find: 'return { ok: true, value };\n',
    replace: '      job.resolve(value);\n      return { ok: true, value };\n',
    suffers: 'a launch acknowledged on a full disk does not exist',
  },
  {
    name: 'a-refused-request-is-not-rolled-back',
    file: 'store/db/group-commit.ts',
    find: 'statements.rollbackTo();',
    replace: '',
    suffers: 'a launch refused for lack of money leaks its capacity',
  },
  // ---- leases and guards
  {
    name: 'a-late-result-overwrites-the-desired-state',
    file: 'store/tables/instances.ts',
    find: ".where('generation', '=', p('leasedGeneration'))",
    replace: '',
    suffers: 'a stopped instance keeps running: a late reconcile of the start overwrites the stop',
  },
  {
    name: 'a-wake-up-is-lost-at-release',
    file: 'store/db/leases.ts',
    find: 'const isWoken = sql`${due} <> ${leaseUntil}`;',
    replace: 'const isWoken = sql`1 = 0`;',
    suffers: 'a request made during a reconcile is never reconciled',
  },
  {
    name: 'a-heartbeat-drops-the-due-time',
    file: 'store/db/leases.ts',
    find: '${due} = case when ${due} = ${leaseUntil} then ${lease.untilMs} else ${due} end',
    replace: '${due} = ${lease.untilMs}',
    suffers: 'an ssh key added during a launch never reaches the instance',
  },
  {
    name: 'leases-are-not-renewed',
    file: 'control/kernel/reconcile-loop.ts',
    find: '.write((tx) => heartbeat(tx, table, { owner: leaseOwner, tokens, untilMs: now() + LEASE_MS }))',
    replace: '.write(async () => {})',
    suffers: 'a pull of more than half a minute restarts forever',
  },
  {
    name: 'a-failed-reconcile-is-not-retried',
    file: 'control/kernel/reconcile-loop.ts',
    find: 'now() + backOff.next()',
    replace: 'null',
    suffers: 'an instance stays Starting forever after the disk was full for a second',
  },
  {
    name: 'a-superseded-reconcile-is-not-aborted',
    file: 'control/kernel/reconcile-loop.ts',
    find: 'if (held.get(id) !== generation) abort.abort();',
    replace: 'if (held.get(id) !== generation && abort.signal.aborted) abort.abort();',
    suffers: 'a terminate waits until the pull is over',
  },
  // ---- rows and counters
  {
    name: 'the-list-version-is-not-incremented',
    file: 'store/tables/events.ts',
    find: "eventSeq: eb('eventSeq', '+', 1),\n      version: eb('version', '+', 1),\n",
    replace: "      eventSeq: eb('eventSeq', '+', 1),\n",
    suffers: 'a list shows a terminated instance as running',
  },
  {
    name: 'an-event-number-is-skipped',
    file: 'store/tables/events.ts',
    find: "eventSeq: eb('eventSeq', '+', 1),",
    replace: "eventSeq: eb('eventSeq', '+', eb.ref('eventSeq')),",
    suffers: 'an event reader waits for an event that never existed',
  },
  {
    name: 'an-idempotent-answer-is-not-stored',
    file: 'control/kernel/idempotent.ts',
    find: 'await storeAnswer(tx, accountId, record, answer, nowMs);',
    replace: '',
    suffers: 'a launch repeated with its key gets an empty answer',
  },
  {
    name: 'an-idempotent-request-runs-twice',
    file: 'control/kernel/idempotent.ts',
    find: 'if (before) return before.answer as Awaited<ReturnType<typeof fn>>;',
    replace: 'if (before?.answer === null) return before.answer as Awaited<ReturnType<typeof fn>>;',
    suffers: 'a launch repeated with its key runs and is billed twice',
  },
  {
    name: 'capacity-is-released-twice',
    file: 'control/compute/instances/reconcile-context.ts',
    find: 'if (freeCapacity && state.holdsCapacity) {',
    replace: 'if (freeCapacity) {',
    suffers: 'the region reserves more than it has',
  },
  {
    name: 'node-ports-are-not-released',
    file: 'control/compute/instances/take-down.ts',
    find: 'await releaseNodePorts(tx, id);',
    replace: '',
    suffers: 'the region runs out of node ports after a month of launches',
  },
  {
    name: 'mounts-are-not-deleted',
    file: 'control/compute/instances/take-down.ts',
    find: 'await deleteMountsOf(tx, id);',
    replace: '',
    suffers: 'a volume can never be deleted',
  },
  {
    name: 'a-node-port-is-allotted-twice',
    file: 'control/compute/instances/node-ports.ts',
    find: 'if (nodePort !== avoided && (await allotNodePort(tx, region, nodePort, instance.id, port))) return nodePort;',
    replace: 'if (nodePort !== avoided) return nodePort;',
    suffers: 'two instances have the same node port, and one of them does not start',
  },
  // ---- desired state
  {
    name: 'a-request-does-not-make-its-row-due',
    file: 'control/compute/instances/actions.ts',
    find: 'dueAtMs: nowMs,\n',
    replace: '    dueAtMs: nowMs + 365 * 86_400_000,\n',
    suffers: 'a stop is acknowledged and never carried out',
  },
  {
    name: 'a-request-keeps-the-old-generation',
    file: 'domain/compute/desired-state.ts',
    find: 'generation: instance.generation + 1,\n    requestedAtMs: nowMs,\n    attempts: 0,',
    replace: '    generation: instance.generation,\n    requestedAtMs: nowMs,\n    attempts: 0,',
    suffers: 'a late reconcile of the previous request overwrites the new one',
  },
  {
    name: 'a-released-instance-stays-queued',
    file: 'domain/compute/desired-state.ts',
    find: 'waitsSinceMs: null,\n    waitsUntilMs: null,\n    operation: beginOperation(action, cause, nowMs),',
    replace:
      "    waitsSinceMs: action === 'terminate' ? instance.waitsSinceMs : null,\n    waitsUntilMs: null,\n    operation: beginOperation(action, cause, nowMs),",
    suffers: 'capacity stays reserved for a released instance, and later entries wait forever',
  },
  {
    name: 'a-newcomer-skips-the-queue',
    file: 'store/tables/capacity.ts',
    find: '.where(nobodyWaits)',
    replace: '',
    suffers: 'a newcomer gets the GPU that a queued launch waits for',
  },
  {
    name: 'a-scheduled-stop-is-not-due',
    file: 'store/tables/instances.ts',
    find: "region)) .where('id', '=', instance.id) .execute(); await followActs(tx, before, instance);",
    replace: "region)).where('id', '=', instance.id).execute();",
    suffers: 'an instance scheduled to stop at night keeps running and billing',
  },
  {
    name: 'an-act-is-dropped-on-a-write',
    file: 'store/tables/instances.ts',
    find: 'await followActs(tx, stored, instance); return instance;',
    replace: 'return instance;',
    suffers: 'an instance with a longest run never stops, and bills for weeks',
  },
  // ---- reconciles
  {
    name: 'the-engine-is-called-before-the-allotment-is-stored',
    file: 'control/compute/instances/bring-up.ts',
    find: 'state = await allotPorts(context, state, show);\n    const spec = await engineSpec(context, state.instance);\n    const own = imageCommandOf(state.instance, images.ensured);\n    const request = { ...spec, ...own, imageCredentials: images.credentials };\n    const observation = await callEnsure(context, state.instance, request);',
    replace:
      'const spec = await engineSpec(context, state.instance);\n    const own = imageCommandOf(state.instance, images.ensured);\n    const request = { ...spec, ...own, imageCredentials: images.credentials };\n    const observation = await callEnsure(context, state.instance, request);\n    state = await allotPorts(context, state, show);',
    suffers: 'a crash leaves a container that has no row and bills',
  },
  {
    name: 'an-archive-is-stored-before-it-is-saved',
    file: 'control/compute/instances/take-down.ts',
    find: "let state = await writeObservation(context, start, { unfinished, observed: { phase: 'Archiving', message: '', ...diagnosisFields('', '') }, });\n",
    replace:
      '  let state = await writeInstance(context, start, { ...instance, archive: { ref, sizeBytes: 0, generation: instance.generation, replaces: [] } });\n',
    suffers: 'a save that fails once loses the root disk',
  },
  {
    name: 'an-old-archive-counts-as-the-new-one',
    file: 'domain/compute/plan.ts',
    find: "if (usesHost(observation)) return planHalt(instance, observation, nowMs, limits);\n    return archive?.generation === generation ? { do: 'removeSaved' } : { do: 'saveRoot' };",
    replace:
      "if (usesHost(observation)) return planHalt(instance, observation, nowMs, limits);\n    return archive !== null ? { do: 'removeSaved' } : { do: 'saveRoot' };",
    suffers: 'all work since the previous archive is lost',
  },
  {
    name: 'the-old-archive-is-removed-first',
    file: 'control/compute/instances/take-down.ts',
    find: "let state = await writeObservation(context, start, { unfinished, observed: { phase: 'Archiving', message: '', ...diagnosisFields('', '') }, });\n",
    replace:
      "  let state = await writeObservation(context, start, { unfinished, observed: { phase: 'Archiving', message: '', ...diagnosisFields('', '') }, });\n  if (instance.archive) await removeImage(context, instance, instance.archive.ref);\n",
    suffers: 'a failed second archive loses both',
  },
  {
    name: 'an-unreachable-instance-counts-as-absent',
    file: 'domain/compute/plan.ts',
    find: 'export function plan(instance: Instance, observation: InstanceObservation, nowMs: number, limits: Limits): Step {\n',
    replace:
      "export function plan(instance: Instance, actual: InstanceObservation, nowMs: number, limits: Limits): Step {\n  const observation: InstanceObservation = actual.kind === 'unknown' ? { kind: 'absent' } : actual;\n",
    suffers: 'an engine outage of a minute fails every running instance',
  },
  // ---- disks
  {
    name: 'a-copy-source-is-deleted-too-early',
    file: 'control/storage/reconcile-snapshot.ts',
    find: '!(await isCopySource(work.store.read, disk)) && ',
    replace: '',
    suffers: 'an acknowledged restore fails because its snapshot was deleted a second later',
  },
  {
    name: 'a-copy-is-created-empty',
    file: 'control/storage/reconcile-volume.ts',
    find: 'volume.sizeGB, signal, from)',
    replace: 'volume.sizeGB, signal)',
    suffers: 'a restored volume is Bound and empty',
  },
  {
    name: 'pool-space-of-a-deleted-disk-is-not-released',
    file: 'store/tables/disks.ts',
    find: 'await releasePoolSpace(tx, fromRow(row));',
    replace: 'void fromRow(row);',
    suffers: 'a pool without volumes is full after a month of creates and deletes',
  },
  {
    name: 'an-incomplete-grow-is-not-resumed',
    file: 'domain/storage/volume.ts',
    find: "if (observation.sizeGB !== null && observation.sizeGB < sizeGB) return { do: 'grow' };",
    replace: '',
    suffers: 'a volume of 40 GB is full at 20',
  },
  // ---- plan and state table
  {
    name: 'a-release-ends-before-clean-up',
    file: 'domain/compute/plan.ts',
    find: "return observation.kind === 'absent' && observed.phase === 'Cleaned' ? { do: 'rest' }",
    replace: "return observation.kind === 'absent' ? { do: 'rest' }",
    suffers: 'an instance terminated before it ran keeps its node ports and disks forever',
  },
  {
    name: 'a-failed-start-shows-stopped',
    file: 'domain/compute/instance-states.ts',
    find: '  Starting: bringUpTransitions,',
    replace: "  Starting: { ...bringUpTransitions, failPermanently: 'Stopped' },",
    suffers: 'an instance that failed to start looks stopped by its owner',
  },
  {
    name: 'each-retry-restarts-the-deadline',
    file: 'control/compute/instances/bring-up.ts',
    find: "observed: { status, phase: 'DownloadImage', message: '', progress: null, ...why },",
    replace:
      "observed: { status, phase: 'DownloadImage', message: '', progress: null, countedFromMs: deps.time.now(), ...why },",
    suffers: 'an instance with a missing image stays Starting forever, and holds its capacity',
  },
  {
    name: 'a-disk-in-use-is-unmounted',
    file: 'store/tables/disk-users.ts',
    find: "row('desired', '=', 'running'),\n        row('status', '=', 'Running'),",
    replace: '',
    suffers: 'a restarted instance finds its volume unmounted while others use it',
  },
  {
    name: 'an-unused-disk-stays-mounted',
    file: 'control/storage/mounts.ts',
    find: 'await storage.unmount(disk);',
    replace: '',
    suffers: 'the host leaks a mount and a loop device per instance',
  },
  // ---- money
  {
    name: 'the-remainder-of-a-booking-is-skipped',
    file: 'domain/money/charge.ts',
    find: 'carry = exact % unit;',
    replace: 'carry = 0n;',
    suffers: 'the books of a month lack some cents that nobody can explain',
  },
  {
    name: 'a-start-is-charged',
    file: 'domain/money/meter.ts',
    find: "return compute(observed.status === 'Restarting' ? 'restarting' : 'starting');",
    replace:
      "return isHourly(spec.chargeMode) ? compute('charged', currentPriceMicros(instance)) : compute('starting');",
    suffers: 'an instance that never starts costs as much as one that runs',
  },
  {
    name: 'a-container-is-free-until-it-answers',
    file: 'domain/compute/instance.ts',
    find: "(desired === 'running' && (status === 'Running' || phase === 'WaitReady'));",
    replace: "(desired === 'running' && status === 'Running' && phase !== 'WaitReady');",
    suffers: 'whoever computes in the init script pays nothing',
  },
  {
    name: 'a-run-is-free-while-it-ends',
    file: 'domain/compute/instance.ts',
    find: 'ending !== null || (desired',
    replace: '(desired',
    suffers: 'at each restart a program that ignores the request to end computes for ten seconds free',
  },
  {
    name: 'a-start-that-an-operator-ended-is-paid',
    file: 'domain/compute/start-outcomes.ts',
    find: 'const refundFor = ending?.refundFor ?? refundOf(before, reason);',
    replace: "const refundFor = '' as Diagnosis;",
    suffers: 'an owner pays for a start that an operator ended',
  },
  {
    name: 'a-period-is-not-closed',
    file: 'control/money/metering.ts',
    find: 'const openedAtMs = open ? await close(',
    replace: 'const openedAtMs = open && after ? await close(',
    suffers: 'a terminated instance costs money forever',
  },
  {
    name: 'a-minute-is-charged-twice',
    file: 'control/money/book-usage.ts',
    find: 'return { id: period.id, chargedUntilMs, chargedMicros,',
    replace: 'return { id: period.id, chargedUntilMs: period.chargedUntilMs, chargedMicros,',
    suffers: 'each minute costs as much as all minutes before it',
  },
  {
    name: 'time-after-the-last-sweep-is-booked',
    file: 'control/money/charge-usage.ts',
    find: 'untilMs: lastFullMinute(Math.min(seenAtMs, clock.now()))',
    replace: 'untilMs: lastFullMinute(clock.now())',
    suffers: 'an instance that ended during an outage of the engine is charged for the outage',
  },
  {
    name: 'a-step-of-the-clock-is-charged',
    file: 'control/money/charge-usage.ts',
    find: 'await splitAtStep(tx, stepMs);',
    replace: '',
    suffers: 'a corrected clock costs each running instance up to an hour',
  },
  {
    name: 'a-charge-does-not-move-the-balance',
    file: 'control/money/charge-usage.ts',
    find: 'await splitPeriods(tx, gaps); await saveWallets(tx, before, wallets.values());',
    replace: 'await splitPeriods(tx, gaps);',
    suffers: 'the ledger says that the account has paid, and its balance stays',
  },
  // ---- charge modes
  {
    name: 'an-off-peak-launch-costs-the-full-price',
    file: 'control/compute/instances/launch.ts',
    find: 'quoteId === null ? type.pricesMicros[request.billing.chargeMode]',
    replace: 'quoteId === null ? type.pricesMicros.perHour',
    suffers: 'a night costs as much as a day',
  },
  {
    name: 'a-window-ends-without-a-stop',
    file: 'control/compute/auto-stop/off-peak-windows.ts',
    find: 'const isEnded = mustEnd && (await stopAutomatically(owned, endOf));',
    replace: 'const isEnded = mustEnd && next === null;',
    suffers: 'off-peak instances run through the day at the price of the night',
  },
  {
    name: 'an-instance-resumes-unasked',
    file: 'domain/compute/resume.ts',
    find: 'if (!spec.resume || desired',
    replace: 'if (desired',
    suffers: 'an instance starts and bills again each night',
  },
  {
    name: 'a-used-unit-is-refunded',
    file: 'control/money/prepay.ts',
    find: 'const units = unitsNotBegun(paid, nowMs);',
    replace: 'const units = paid.units;',
    suffers: 'a day is paid back although it was used',
  },
  {
    name: 'paid-time-is-renewed-unasked',
    file: 'control/money/renew-paid-time.ts',
    find: 'if (!instance.spec.autoRenew) return',
    replace: 'if (instance.spec.autoRenew && nowMs < 0) return',
    suffers: 'a month is charged again without automatic renewal',
  },
  {
    name: 'a-renewal-begins-late',
    file: 'domain/money/paid-time.ts',
    find: 'nowMs - endsAtMs > MAX_GAP_MS)',
    replace: 'nowMs - endsAtMs >= 0)',
    suffers: 'each renewal moves the end by a second, and leaves a free one',
  },
  {
    name: 'paid-time-has-no-end',
    file: 'control/money/renew-paid-time.ts',
    find: 'if (ended) await stopAutomatically(',
    replace: 'if (ended === undefined) await stopAutomatically(',
    suffers: 'an instance runs on for months that nobody pays for',
  },
  // ---- money that ends
  {
    name: 'cash-falls-below-the-floor',
    file: 'domain/money/purse.ts',
    find: 'cashMicros > floorMicros ? cashMicros - floorMicros : 0n;',
    replace: 'cashMicros > floorMicros ? cashMicros - floorMicros + 100_000_000n : 0n;',
    suffers: 'an account owes money that nobody lent it',
  },

  // ---- regions
  {
    name: 'drivers-are-those-of-the-first-region',
    file: 'control/kernel/regions.ts',
    find: 'const found = byId.get(id);',
    replace: 'const found = byId.has(id) ? all[0] : undefined;',
    suffers: 'the containers of a region start on the engine of another',
  },
  {
    name: 'a-lost-engine-ends-all-sweeps',
    file: 'control/compute/wire.ts',
    find: 'if (!drivers.health.answers) return;',
    replace: 'if (regions.all().some(({ health }) => !health.answers)) return;',
    suffers: 'nothing is booked and no orphan is found in other regions during an outage',
  },
  {
    name: 'a-region-waits-for-another',
    file: 'control/kernel/regions.ts',
    find: '.filter((drivers) => !underWay.has(drivers));',
    replace: '.filter(() => underWay.size === 0);',
    suffers: 'an engine that hangs delays sweeps and measurements of other regions',
  },
  {
    name: 'a-shared-disk-is-held-by-another-region',
    file: 'control/storage/mounts.ts',
    find: '(await disksInUse(store.read, [disk])).has(diskKey(disk))',
    replace: '(await disksInUse(store.read, [disk])).size > 0',
    suffers: 'the disk of an account stays mounted where none of its instances runs',
  },
];
