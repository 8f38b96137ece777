/**
 * Formats an outcome as Markdown, prints it, and replaces its section of `bench/RESULTS.md`.
 * Compares figures with those of the last release.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { median, spread } from './numbers.ts';

const FILE = join(import.meta.dirname, '../RESULTS.md');
const INTRODUCTION = `# Results

Written by \`npm run bench\`, one section per bench (*newcomer*: by its test), with the commit that was measured. \`README.md\` says how to read the figures.
`;

export interface Outcome {
  /** Header, then rows. */
  table: string[][];
  /** Target, result and verdict of each figure. */
  verdicts: { asked: string; measured: string; met: boolean | null }[];
  notes: string[];
  /** Processor time of a request by round, in requests of a bare server or turns of a loop. */
  figures?: Figures;
}

export type Figures = Record<string, number[]>;

const RELEASE = join(import.meta.dirname, '../release.json');
const release = z.object({
  commit: z.string(),
  benches: z.record(z.string(), z.record(z.string(), z.array(z.number()))),
});

/** Worse: a median above all rounds of the release, and no round below its median. */
export async function againstRelease(name: string, figures: Figures): Promise<Outcome['verdicts']> {
  const { commit, benches } = release.parse(JSON.parse(await readFile(RELEASE, 'utf8')));
  return Object.entries(figures).flatMap(([figure, now]) => {
    const before = benches[name]?.[figure];
    if (before === undefined) return [];
    const isWorse = median(now) > Math.max(...before) && Math.min(...now) > median(before);
    return { asked: `${figure}, at ${commit}: ${spread(before)}`, measured: spread(now), met: !isWorse };
  });
}

export async function keepRelease(name: string, commit: string, figures: Figures): Promise<void> {
  const { benches } = release.parse(JSON.parse(await readFile(RELEASE, 'utf8')));
  const rounded = Object.entries(figures).map(([figure, ratios]) => [
    figure,
    ratios.map((ratio) => Number(ratio.toPrecision(3))),
  ]);
  const text = JSON.stringify({ commit, benches: { ...benches, [name]: Object.fromEntries(rounded) } }, null, 2);
  await writeFile(RELEASE, `${text}\n`);
}

export function sectionOf(name: string, title: string, facts: string[], { table, verdicts, notes }: Outcome): string {
  const row = (cells: string[]): string => `| ${cells.join(' | ')} |`;
  const [head = [], ...rows] = table;
  const lines = [
    `## ${name}: ${title}`,
    '',
    ...facts.map((fact) => `- ${fact}`),
    '',
    row(head),
    row(head.map((_, index) => (index === 0 ? '---' : '---:'))),
    ...rows.map(row),
    '',
  ];
  const word = (met: boolean | null): string => (met === null ? 'for information' : met ? 'met' : 'MISSED');
  const judged = verdicts.map(({ asked, measured, met }) => row([asked, measured, word(met)]));
  if (judged.length > 0) lines.push(row(['target', 'measured', '']), row(['---', '---:', '---']), ...judged, '');
  lines.push(...notes.flatMap((note) => [note, '']));
  return `${lines.join('\n').trimEnd()}\n`;
}

/** Sections are in the order of `names`. */
export async function keepSection(name: string, section: string, names: readonly string[]): Promise<void> {
  const present = await readFile(FILE, 'utf8').catch(() => '');
  const sections = new Map<string, string>();
  for (const text of present.split(/^(?=## )/m)) {
    const found = /^## ([^:\n]+)/.exec(text)?.[1];
    if (found !== undefined) sections.set(found, text);
  }
  sections.set(name, section);
  const known = names.filter((one) => sections.has(one));
  const others = [...sections.keys()].filter((one) => !names.includes(one));
  const texts = [...known, ...others].map((one) => sections.get(one)?.trimEnd() ?? '');
  await writeFile(FILE, `${[INTRODUCTION.trimEnd(), ...texts].join('\n\n')}\n`);
}
