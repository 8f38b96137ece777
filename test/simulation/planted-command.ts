/**
 * `npm run simulate -- --planted [name]`: hunts planted faults, two at a time, and prints the seed
 * and invariant that find each.
 */
import { hunt, makeCopy } from './planted-copies.ts';
import { plantedFaults, type PlantedFault } from './planted-faults.ts';

const AT_ONCE = 2;

/** Returns the number of faults not found. */
export async function huntPlanted(wanted: string | undefined, mostSeeds: number): Promise<number> {
  const faults = wanted === undefined ? plantedFaults : plantedFaults.filter(({ name }) => name === wanted);
  if (faults.length === 0) {
    const names = plantedFaults.map(({ name }) => name).join('\n');
    process.stderr.write(`${wanted} is no planted fault; these are:\n${names}\n`);
    return 1;
  }
  const left = faults.values();
  const missed: PlantedFault[] = [];
  const sound = makeCopy(null);
  const work = async (): Promise<void> => {
    for (const fault of left) {
      const found = await hunt(fault, sound, mostSeeds);
      if (!found) missed.push(fault);
      const how = found ? `found at seed ${found.seed}: ${found.wrong}` : `not found in ${mostSeeds} seeds`;
      process.stdout.write(`${fault.name}: ${how}\n`);
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  } finally {
    sound.remove();
  }
  process.stdout.write(`${faults.length - missed.length} of ${faults.length} planted faults found\n`);
  return missed.length;
}
