/**
 * Reads the tables of `docs/interface.md` into lists of fields: path, type, required. Throws for a
 * table of an unknown form, so that no table is skipped.
 */
import { readFile } from 'node:fs/promises';

export interface InterfaceField {
  path: string;
  type: string;
  /** Requests only. */
  required?: boolean;
}

export interface InterfaceFields {
  instance: InterfaceField[];
  volume: InterfaceField[];
  requests: Record<string, InterfaceField[]>;
  answers: Record<string, InterfaceField[]>;
}

const TYPES = new Set(['string', 'number', 'boolean', 'object', 'array']);
const MEMBERS_NAMED_IN_PROSE = /`(\w+)` \((string|number|boolean)/g;

const documentUrl = new URL('../../../docs/interface.md', import.meta.url);
export const expectedUrl = new URL('../../expected/interface-fields.json', import.meta.url);

export const readInterface = (): Promise<string> => readFile(documentUrl, 'utf8');

interface Row {
  field: string;
  type: string;
  required: boolean | undefined;
  meaning: string;
}

interface Table {
  /** Number of the last heading above, such as `2.1` or `4.4`. */
  section: string;
  /** The line right above the table. */
  lead: string;
  rows: Row[];
}

export function fieldsOf(markdown: string): InterfaceFields {
  const tables = tablesOf(markdown);
  const of = (section: string): Table[] => tables.filter((table) => table.section === section);
  return {
    instance: nested(of('2.1')),
    volume: nested(of('2.2')),
    requests: {
      launch: nested(of('4.1')),
      listInstances: nested(of('4.2').filter(({ lead }) => lead.startsWith('Request'))),
      createVolume: nested(of('4.4')),
    },
    answers: {
      launch: answerInProse(markdown, '4.1'),
      listInstances: nested(of('4.2').filter(({ lead }) => lead.startsWith('Success'))),
      listVolumes: answerInProse(markdown, '4.3'),
      createVolume: answerInProse(markdown, '4.4'),
    },
  };
}

function tablesOf(markdown: string): Table[] {
  const tables: Table[] = [];
  let section = '';
  let lead = '';
  const lines = markdown.split('\n');
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    section = /^###? (\d+(?:\.\d+)?)/.exec(line)?.[1] ?? section;
    if (!line.startsWith('|')) {
      if (line.trim() !== '') lead = line.trim();
      continue;
    }
    const columns = cellsOf(line);
    const rows: Row[] = [];
    for (at += 2; lines[at]?.startsWith('|'); at += 1) {
      const cells = Object.fromEntries(cellsOf(lines[at] ?? '').map((cell, index) => [columns[index] ?? '', cell]));
      const row = rowOf(cells, section);
      if (row) rows.push(row);
    }
    if (rows.length > 0) tables.push({ section, lead, rows });
  }
  return tables;
}

/** Undefined for a table without fields. */
function rowOf(cells: Partial<Record<string, string>>, section: string): Row | undefined {
  const { Field: field, Type: type, Required: required, Meaning, Description } = cells;
  if (field === undefined || type === undefined) return undefined;
  if (!TYPES.has(type)) throw new Error(`field ${field} of §${section} has the unknown type ${type}`);
  if (required !== undefined && required !== 'yes' && required !== 'no') {
    throw new Error(`field ${field} of §${section} is required "${required}"`);
  }
  return {
    field,
    type,
    required: required === undefined ? undefined : required === 'yes',
    meaning: Meaning ?? Description ?? '',
  };
}

const cellsOf = (line: string): string[] =>
  line
    .replace(/^\||\|\s*$/g, '')
    .split('|')
    .map((cell) => cell.trim());

/** The first table is the object itself; each other table is named by the line above it. */
function nested(tables: Table[]): InterfaceField[] {
  const fields: InterfaceField[] = [];
  for (const [index, { lead, rows, section }] of tables.entries()) {
    let prefix = '';
    if (index > 0) {
      const name = /^(?:\*\*(\w+)|(?:Each item of )?`(\w+)`)/.exec(lead)?.slice(1).find(Boolean);
      const parent = fields.find(({ path }) => path === name || path.endsWith(`.${name}`));
      if (!parent) throw new Error(`the table below "${lead}" in §${section} describes no field named before`);
      prefix = parent.type === 'array' ? `${parent.path}[].` : `${parent.path}.`;
    }
    for (const row of rows) {
      const path = prefix + row.field;
      fields.push({ path, type: row.type, ...(row.required === undefined ? {} : { required: row.required }) });
      if (row.type !== 'object') continue;
      for (const [, member = '', type = ''] of row.meaning.matchAll(MEMBERS_NAMED_IN_PROSE)) {
        fields.push({ path: `${path}.${member}`, type });
      }
    }
  }
  return fields;
}

/**
 * "Success response: object with `instanceId` (string, …)" and "object with `volume` (volume
 * object, section 2.2)".
 */
function answerInProse(markdown: string, section: string): InterfaceField[] {
  const from = markdown.indexOf(`### ${section} `);
  const [, member, what] = /Success response: object with `(\w+)` \((\w+)/.exec(markdown.slice(from)) ?? [];
  if (from < 0 || member === undefined || what === undefined) throw new Error(`§${section} says no success response`);
  return [{ path: member, type: TYPES.has(what) ? what : 'object' }];
}
