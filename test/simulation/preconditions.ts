/**
 * Preconditions of the calls of a region's engine and storage: the object is in that region, a row
 * exists for each created object, and nothing desired is removed.
 */
import { instanceId, type InstanceId } from '../../src/domain/kernel/ids.ts';
import { containerName } from '../../src/engines/labels.ts';
import type { EngineSpec, OwnedObject } from '../../src/engines/contract.ts';
import { diskKey, type DiskId } from '../../src/domain/storage/disk.ts';
import { diskIdsOf } from '../../src/domain/storage/disk-usage.ts';
import type { Checker } from './checker.ts';
import type { SimulatedRegion, SimulatedRegionOptions } from './simulated-region.ts';

export interface Preconditions {
  /** Ids of instances, joined by commas, or an image. */
  mayAskEngine(verb: string, about: string): void;
  mayAskStorage(verb: string, disk: string): void;
  mayEnsure(spec: EngineSpec): void;
  mayDestroy(id: InstanceId): void;
  mayRemoveImage(ref: string): void;
  maySave(id: InstanceId, ref: string): void;
  mayDiscard(owned: OwnedObject): void;
  mayCreateDisk(disk: DiskId): void;
  mayDestroyDisk(disk: DiskId): void;
  mayUnmount(disk: DiskId): void;
  /** The engine reports that the image holds the root disk of the instance. */
  markSaved(id: string, ref: string): void;
  /** The registry holds the image. */
  markPushed(ref: string): void;
}

const IMAGE_REGION = 'select regionId from image where ref = ?';

export function makePreconditions(
  own: Pick<SimulatedRegion, 'region' | 'engine'> & Pick<SimulatedRegionOptions, 'pushes'>,
  checker: Checker,
  wrong: (text: string) => void,
): Preconditions {
  const savedRefs = new Set<string>();
  const isElsewhere = (regionId: string | null | undefined): boolean =>
    regionId !== null && regionId !== undefined && regionId !== own.region.id;
  return {
    mayAskEngine(verb, about) {
      const text = (what: string): string => `the engine of ${own.region.name} is asked to ${verb} ${what}`;
      for (const id of about.split(','))
        if (isElsewhere(checker.instances.get(id)?.row.regionId)) wrong(text(`${id}, which is in another region`));
      const [image] = own.pushes ? [] : checker.rows<{ regionId: string | null }>(IMAGE_REGION, about);
      if (isElsewhere(image?.regionId)) wrong(text(`${about}, which is in another region`));
    },
    mayAskStorage(verb, disk) {
      const [row] = checker.rows<{ regionId: string }>('select regionId from disk where id = ?', disk);
      if (isElsewhere(row?.regionId))
        wrong(`the storage of ${own.region.name} is asked to ${verb} ${disk}, which is in another region`);
    },
    markSaved(id, ref) {
      // The root disk of an instance that is to run again stays on the host.
      if (!own.pushes || checker.instances.get(id)?.instance.desired === 'running') savedRefs.add(ref);
    },
    markPushed: (ref) => void savedRefs.add(ref),
    mayEnsure({ id, generation, nodePorts }) {
      const stored = checker.instances.get(id);
      if (!stored) return wrong(`the engine is asked to make ${id}, which is not written down`);
      const { row, instance } = stored;
      // The desired state may have changed since the reconcile read it; the next one corrects the
      // result.
      if (row.generation > generation) return;
      if (row.everEnsured !== 1) wrong(`the engine is asked to make ${id}, and that it was is not written down`);
      if (instance.desired !== 'running')
        wrong(`the engine is asked to make ${id}, whose desired state is ${instance.desired}`);
      if (row.holdsCapacity !== 1) wrong(`the engine is asked to make ${id}, which holds no capacity`);
      for (const { nodePort } of nodePorts) {
        const own = instance.nodePorts.some((one) => one.nodePort === nodePort);
        if (nodePort === 0 || !own)
          wrong(`the engine is asked to give ${id} the node port ${nodePort}, which is not its own`);
      }
    },
    mayDestroy(id) {
      const instance = checker.instances.get(id)?.instance;
      if (!instance || instance.desired === 'released' || !own.engine.host.holds(id)) return;
      const { archive, desired } = instance;
      const text = `the engine is asked to remove ${id}, whose desired state is ${desired}, and its root disk is not kept`;
      if (archive === null) return wrong(text);
      if (!savedRefs.has(archive.ref)) wrong(`${text}: nobody has said that ${archive.ref} is`);
      if (archive.generation !== instance.generation) wrong(`${text}: ${archive.ref} is older`);
    },
    mayRemoveImage(ref) {
      if (own.pushes) return;
      for (const { row, instance } of checker.instances.values())
        if (instance.archive?.ref === ref && instance.desired !== 'released')
          wrong(`the engine is asked to remove the image ${ref}, which is the root disk of ${row.id}`);
      const images = checker.rows<{ id: string; state: string }>('select id, state from image where ref = ?', ref);
      for (const { id, state } of images)
        if (state !== 'Deleting') wrong(`the engine is asked to remove the image ${ref}, which is ${id}, ${state}`);
    },
    maySave(id, ref) {
      const named = checker.rows(
        'select id from image where ref = ? union select id from instance where id = ? and instr(unfinished, ?) > 0',
        ref,
        id,
        JSON.stringify(ref),
      );
      if (named.length === 0) wrong(`the engine is asked to keep ${id} as ${ref}, and that is not written down`);
    },
    mayDiscard({ kind, id, engineName }) {
      const instance = checker.instances.get(id)?.instance;
      if (
        kind === 'instance' &&
        engineName === containerName(instanceId(id)) &&
        instance &&
        instance.desired !== 'released'
      )
        wrong(`the engine is asked to discard ${engineName}, whose desired state is ${instance.desired}`);
      if (kind === 'image') this.mayRemoveImage(engineName);
    },
    mayCreateDisk({ kind, id }) {
      const [disk] = checker.rows('select id from disk where id = ?', `${kind}/${id}`);
      if (!disk) wrong(`the storage is asked to make ${kind}/${id}, which is not written down`);
    },
    mayUnmount(disk) {
      for (const { row, instance } of checker.instances.values()) {
        const isActive = row.status === 'Running' && instance.desired === 'running' && row.dueAtMs === null;
        if (isActive && diskIdsOf(instance).some((one) => diskKey(one) === diskKey(disk)))
          wrong(`${diskKey(disk)} is unmounted, and ${row.id} runs with it`);
      }
    },
    mayDestroyDisk({ kind, id }) {
      if (kind === 'shared') return wrong(`the storage is asked to remove the shared disk ${id}`);
      if (kind === 'data') {
        const desired = checker.instances.get(id)?.instance.desired;
        if (desired !== 'released')
          wrong(`the storage is asked to remove the data disk of ${id}, whose desired state is ${desired}`);
        return;
      }
      const status = kind === 'snapshot' ? checker.snapshots.get(id)?.status : checker.volumes.get(id)?.status;
      if (status !== undefined && status !== 'Terminating')
        wrong(`the storage is asked to remove ${kind} ${id}, which is ${status}`);
      const copied = checker.copiesOf({ kind, id });
      if (copied.length > 0) wrong(`the storage is asked to remove ${kind} ${id}, of which ${copied[0]} is being made`);
      const mounters = checker.rows<{ instanceId: string }>('select instanceId from mount where volumeId = ?', id);
      if (mounters.length > 0)
        wrong(`the storage is asked to remove volume ${id}, which ${mounters[0]?.instanceId} mounts`);
    },
  };
}
