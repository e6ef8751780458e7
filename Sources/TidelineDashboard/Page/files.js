// files.js: export and import of a table as CSV (RFC 4180) or JSON, through the routes for rows.
//
// In CSV an empty field is null and "" is the empty text, so that an import restores an export.

import { h, button, fill, openDialog, problem, say } from './element.js';
import { get, send, rowPath, ifMatch, isNumber, parse } from './server.js';
import { textOf, valueOf } from './editor.js';
import { firstQuery } from './rows.js';

const bytesMax = 64 << 20;
const errorsShown = 20;
const atOnce = 6;

function csvField(value, column) {
  if (value === null || value === undefined) return '';
  const text = column?.type === 'json' ? JSON.stringify(value) : textOf(value, column);
  return text === '' || /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Parses CSV into records; an empty field is null, an empty quoted field is ''. */
export function readCSV(text) {
  const records = [];
  let record = [];
  let place = text.charCodeAt(0) === 0xFEFF ? 1 : 0;
  while (place < text.length) {
    let field = null;
    if (text[place] === '"') {
      const parts = [];
      for (;;) {
        const end = text.indexOf('"', place + 1);
        if (end < 0) throw new Error(`Record ${records.length + 1}: a quoted field is not closed.`);
        parts.push(text.slice(place + 1, end));
        place = end + 1;
        if (text[place] !== '"') break;
        parts.push('"');
      }
      field = parts.join('');
    } else {
      const rest = /[^,\r\n]*/y;
      rest.lastIndex = place;
      field = rest.exec(text)[0] || null;
      place = rest.lastIndex;
    }
    record.push(field);
    const next = text[place];
    if (next === ',') {
      place += 1;
      if (place === text.length) record.push(null);
    } else if (next === undefined || next === '\n' || next === '\r') {
      place += next === '\r' && text[place + 1] === '\n' ? 2 : 1;
      if (record.length > 1 || record[0] !== null) records.push(record);
      record = [];
    } else {
      throw new Error(`Record ${records.length + 1}: a comma is expected after a quoted field.`);
    }
  }
  if (record.length) records.push(record);
  return records;
}

const ofServer = ['createdAt', 'updatedAt', 'version', 'deleted'];

/** Parses the rows of a file into request bodies; null for a row that is deleted in the file. Throws
 * an error if the file is not valid, so that nothing is written. */
export function readRows(text, isCSV, table) {
  const columns = new Map([['id', { name: 'id', type: 'string' }], ...table.columns.map((column) => [column.name, column])]);
  const rows = isCSV ? rowsOfCSV(text, columns) : rowsOfJSON(text, columns);
  const places = new Map();
  rows.forEach((row, place) => {
    const id = row?.id ?? null;
    if (id === null) return;
    if (places.has(id)) throw new Error(`Rows ${places.get(id) + 1} and ${place + 1} have the same id, '${id}'.`);
    places.set(id, place);
  });
  return rows;
}

function checkNames(names, columns) {
  const unknown = names.filter((name) => !columns.has(name) && !ofServer.includes(name));
  if (unknown.length) throw new Error(`The table has no column ${unknown.map((name) => name ?? 'without a name').join(', ')}.`);
  const twice = names.find((name, place) => names.indexOf(name) < place);
  if (twice !== undefined) throw new Error(`The column ${twice} is listed twice.`);
}

function rowsOfJSON(text, columns) {
  const rows = parse(text);
  if (!Array.isArray(rows)) throw new Error('A JSON file must be an array of rows.');
  const names = new Set();
  rows.forEach((row, place) => {
    if (typeof row !== 'object' || row === null || Array.isArray(row) || isNumber(row)) throw new Error(`Row ${place + 1}: an object is expected.`);
    for (const name of Object.keys(row)) names.add(name);
  });
  checkNames([...names], columns);
  return rows.map((row) => (row.deleted === true ? null
    : Object.fromEntries(Object.entries(row).filter(([name]) => columns.has(name)))));
}

function rowsOfCSV(text, columns) {
  const [head, ...records] = readCSV(text);
  if (!head) return [];
  checkNames(head, columns);
  const deleted = head.indexOf('deleted');
  return records.map((record, place) => {
    if (record.length !== head.length) {
      throw new Error(`Record ${place + 2}: it has ${record.length} fields, but the first line has ${head.length}. `
        + 'Put values that contain a comma in quotes.');
    }
    if (record[deleted] === 'true') return null;
    const row = {};
    head.forEach((name, index) => {
      const column = columns.get(name);
      if (!column) return;
      const field = record[index];
      try {
        if (field !== null) row[name] = valueOf(field, column);
        else if (name !== 'id') row[name] = null;
      } catch (error) { throw new Error(`Record ${place + 2}: ${error.message}`); }
    });
    return row;
  });
}

/** Opens a dialog that saves the rows of the view as a file. */
export function openExport(table, view) {
  const state = h('p', { role: 'status', class: 'note' }, view.filter ? 'The rows that match the filter.' : 'All rows of the table.');
  let isStopped = false;
  const run = (isCSV) => async () => {
    const names = ['id', ...table.columns.map(({ name }) => name), 'createdAt', 'updatedAt', 'version', 'deleted'];
    const byName = new Map(table.columns.map((column) => [column.name, column]));
    const parts = [isCSV ? `${names.join(',')}\r\n` : '['];
    let query = firstQuery(view, false);
    let count = 0;
    try {
      while (query !== null && !isStopped) {
        const page = await get(`tables/${encodeURIComponent(table.name)}?${query}`, { headers: { Prefer: 'maxpagesize=1000' } });
        for (const row of page.items) {
          parts.push(isCSV
            ? `${names.map((name) => csvField(row[name], byName.get(name))).join(',')}\r\n`
            : `${count ? ',' : ''}\n${JSON.stringify(row)}`);
          count += 1;
        }
        fill(state, `${count.toLocaleString('en')} rows …`);
        query = page.nextLink ? page.nextLink.replace(/^.*\?/, '') : null;
      }
      if (isStopped) return;
      if (!isCSV) parts.push('\n]\n');
      const url = URL.createObjectURL(new Blob(parts, { type: isCSV ? 'text/csv' : 'application/json' }));
      h('a', { href: url, download: `${table.name}.${isCSV ? 'csv' : 'json'}` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60000);
      fill(state, `${count.toLocaleString('en')} rows were saved.`);
    } catch (error) { fill(state, problem(error)); }
  };
  const dialog = openDialog('Export', h('h2', {}, `Export ${table.name}`), state, h('div', { class: 'bar' },
    button('CSV', run(true), { class: 'main' }), button('JSON', run(false), { class: 'main' }),
    h('span', { class: 'grow' }), button('Close', () => dialog.close())));
  dialog.addEventListener('close', () => { isStopped = true; });
}

async function textOfFile(file) {
  const bytes = await file.arrayBuffer();
  try { return new TextDecoder('utf-8', { fatal: true }).decode(bytes); } catch {
    throw new Error('The file is not UTF-8 text. Save it in that encoding.');
  }
}

/** Opens a dialog that writes the rows of a file; calls `done()` afterward. */
export function openImport(table, done) {
  const file = h('input', { type: 'file', accept: '.csv,.json,text/csv,application/json', 'aria-label': 'File' });
  const over = h('select', { 'aria-label': 'Existing rows' },
    h('option', { value: 'skip' }, 'Skip existing rows'), h('option', { value: 'write' }, 'Overwrite existing rows'));
  const state = h('div', { role: 'status' });
  let isStopped = false;
  let told = '';
  const run = async () => {
    const chosen = file.files[0];
    if (!chosen) return void fill(state, problem(new Error('Choose a file first.')));
    if (chosen.size > bytesMax) return void fill(state, problem(new Error('The file is larger than 64 MiB. Split it.')));
    start.disabled = true;
    try {
      const rows = readRows(await textOfFile(chosen), !chosen.name.toLowerCase().endsWith('.json'), table);
      await writeRows(rows);
    } catch (error) { fill(state, problem(error)); }
    start.disabled = false;
    done();
  };
  const writeRows = async (rows) => {
    const count = { added: 0, changed: 0, left: 0, refused: 0 };
    const errors = [];
    const bar = h('progress', { max: rows.length, value: 0, 'aria-label': 'Rows written' });
    const text = h('p', {});
    const list = h('ul', {});
    fill(state, bar, text, list);
    const tell = () => {
      told = `${count.added} added, ${count.changed} changed, ${count.left} skipped, ${count.refused} rejected`;
      fill(text, told);
    };
    let place = 0;
    const worker = async () => {
      while (place < rows.length && !isStopped) {
        const number = place;
        place += 1;
        try {
          count[await writeRow(rows[number], over.value === 'write')] += 1;
        } catch (error) {
          count.refused += 1;
          if (errors.push(error) <= errorsShown) list.append(h('li', {}, `Row ${number + 1}: ${error.message}`));
        }
        if (number % 50 === 0) { bar.value = place; tell(); }
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
    bar.value = place;
    tell();
    if (isStopped) say(`The import was stopped: ${told}.`, true);
  };
  const writeRow = async (row, isOver) => {
    if (row === null) return 'left';
    try {
      await send('POST', `tables/${encodeURIComponent(table.name)}`, { body: row });
      return 'added';
    } catch (error) {
      if (error.status !== 409) throw error;
      if (!isOver || !error.body?.version) return 'left';
      const { id, ...values } = row;
      if (error.body.deleted) values.deleted = false;
      await send('PATCH', `${rowPath(table.name, id)}?__includeDeleted=true`, { body: values, headers: ifMatch(error.body) });
      return 'changed';
    }
  };
  const start = button('Import', run, { class: 'main' });
  const dialog = openDialog('Import', h('h2', {}, `Import into ${table.name}`),
    h('p', { class: 'note' }, 'A CSV file whose first line names the columns, or a JSON array of rows. Deleted rows in the file are skipped.'),
    h('div', { class: 'bar' }, file, over), state,
    h('div', { class: 'bar' }, start, h('span', { class: 'grow' }), button('Close', () => dialog.close())));
  dialog.addEventListener('close', () => { isStopped = true; });
}
