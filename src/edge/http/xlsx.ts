/** Workbooks of Office Open XML (ECMA-376), written as they are read, row by row. */
import { strToU8, Zip, ZipDeflate } from 'fflate';
import { DAY_MS } from '../../domain/kernel/durations.ts';
import { escaped } from './html.ts';

/** A date is a wall time, written as the milliseconds that it would be in UTC. */
export type XlsxCell = string | number | null | { wallMs: number };

export interface Sheet {
  name: string;
  head: readonly string[];
  /** Batches of rows. */
  rows: AsyncIterable<readonly (readonly XlsxCell[])[]> | Iterable<readonly (readonly XlsxCell[])[]>;
}

const MAIN = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main';
const OFFICE = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships';
const PACKAGE = 'http://schemas.openxmlformats.org/package/2006';
const TYPE = 'application/vnd.openxmlformats-officedocument.spreadsheetml';
const XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n';
/** Days from 30 December 1899 to 1970. */
const EPOCH_DAYS = 25_569;
const MAX_ROWS = 1_048_576;

const STYLES = `${XML}<styleSheet xmlns="${MAIN}"><numFmts count="1"><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd hh:mm:ss"/></numFmts><fonts count="2"><font/><font><b/></font></fonts><fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills><borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs><cellXfs count="3"><xf/><xf numFmtId="164" applyNumberFormat="1"/><xf fontId="1" applyFont="1"/></cellXfs></styleSheet>`;

/** XML has no place for most control characters. */
const text = (value: string): string =>
  escaped(value.toWellFormed().replaceAll(/[^\t\n\r\x20-\u{fffd}\u{10000}-\u{10ffff}]/gu, ''));

function cellOf(value: XlsxCell, style = ''): string {
  if (value === null || value === '') return '<c/>';
  if (typeof value === 'number') return `<c><v>${value}</v></c>`;
  if (typeof value === 'object') return `<c s="1"><v>${value.wallMs / DAY_MS + EPOCH_DAYS}</v></c>`;
  return `<c t="inlineStr"${style}><is><t xml:space="preserve">${text(value)}</t></is></c>`;
}
const rowOf = (cells: readonly XlsxCell[], style?: string): string =>
  `<row>${cells.map((cell) => cellOf(cell, style)).join('')}</row>`;

export async function* xlsx(sheets: readonly Sheet[]): AsyncGenerator<Uint8Array> {
  let chunks: Uint8Array[] = [];
  const zip = new Zip((error, chunk) => {
    if (error) throw error;
    chunks.push(chunk);
  });
  const open = (path: string): ((content: string, isLast?: boolean) => void) => {
    const file = new ZipDeflate(path, { level: 6 });
    zip.add(file);
    return (content, isLast = false) => file.push(strToU8(content), isLast);
  };
  function* written(): Generator<Uint8Array> {
    yield* chunks;
    chunks = [];
  }
  const names: string[] = [];
  const begin = ({ name, head }: Sheet, part: number) => {
    names.push(part === 1 ? name : `${name} ${part}`);
    const write = open(`xl/worksheets/sheet${names.length}.xml`);
    write(
      `${XML}<worksheet xmlns="${MAIN}"><sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews><sheetFormatPr defaultRowHeight="15" baseColWidth="18"/><sheetData>${rowOf(head, ' s="2"')}`,
    );
    return write;
  };
  for (const sheet of sheets) {
    let part = 1;
    let write = begin(sheet, part);
    let rows = 1;
    for await (const batch of sheet.rows) {
      if (rows + batch.length > MAX_ROWS) {
        write('</sheetData></worksheet>', true);
        write = begin(sheet, (part += 1));
        rows = 1;
      }
      rows += batch.length;
      write(batch.map((cells) => rowOf(cells)).join(''));
      yield* written();
    }
    write('</sheetData></worksheet>', true);
    yield* written();
  }
  const each = (of: (name: string, at: number) => string): string => names.map((name, at) => of(name, at + 1)).join('');
  open('xl/styles.xml')(STYLES, true);
  open('xl/workbook.xml')(
    `${XML}<workbook xmlns="${MAIN}" xmlns:r="${OFFICE}"><sheets>${each((name, at) => `<sheet name="${text(name)}" sheetId="${at}" r:id="rId${at}"/>`)}</sheets></workbook>`,
    true,
  );
  open('xl/_rels/workbook.xml.rels')(
    `${XML}<Relationships xmlns="${PACKAGE}/relationships">${each((_, at) => `<Relationship Id="rId${at}" Type="${OFFICE}/worksheet" Target="worksheets/sheet${at}.xml"/>`)}<Relationship Id="rId0" Type="${OFFICE}/styles" Target="styles.xml"/></Relationships>`,
    true,
  );
  open('_rels/.rels')(
    `${XML}<Relationships xmlns="${PACKAGE}/relationships"><Relationship Id="rId1" Type="${OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>`,
    true,
  );
  open('[Content_Types].xml')(
    `${XML}<Types xmlns="${PACKAGE}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="${TYPE}.sheet.main+xml"/><Override PartName="/xl/styles.xml" ContentType="${TYPE}.styles+xml"/>${each((_, at) => `<Override PartName="/xl/worksheets/sheet${at}.xml" ContentType="${TYPE}.worksheet+xml"/>`)}</Types>`,
    true,
  );
  zip.end();
  yield* written();
}
