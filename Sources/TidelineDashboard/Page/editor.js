// editor.js: the form of a row, the dialog for conflicts, and the conversion of values to text.

import { h, button, fill, openDialog, problem, say } from './element.js';
import { send, rowPath, ifMatch, same, isNumber, numberOf, parse } from './server.js';

const systemNames = ['createdAt', 'updatedAt', 'version', 'deleted'];

/** Returns a value as text to edit. */
export function textOf(value, column) {
  if (value === null || value === undefined) return '';
  if (column?.type === 'json') return JSON.stringify(value, null, 2);
  return typeof value === 'object' && !isNumber(value) ? JSON.stringify(value) : String(value);
}

/** Parses text as a value of a column; throws an error if it is not valid. */
export function valueOf(text, column) {
  switch (column.type) {
    case 'integer':
    case 'number':
    case 'decimal': {
      const number = text.trim();
      if (!/^-?\d+(\.\d+)?([eE][-+]?\d+)?$/.test(number)) throw new Error(`${column.name}: a number is expected.`);
      return numberOf(number);
    }
    case 'boolean':
      if (text !== 'true' && text !== 'false') throw new Error(`${column.name}: true or false is expected.`);
      return text === 'true';
    case 'json':
      try { return parse(text); } catch (error) { throw new Error(`${column.name}: ${error.message}`); }
    default:
      return text;
  }
}

/** Whether empty text means null. */
const isEmptyNull = (column) => column.nullable && column.type !== 'string';

/** Parses the text of an input that showed `old` at first; unchanged text keeps the exact value. */
export function editedValue(text, column, old) {
  if (text === textOf(old, column)) return old ?? null;
  return text === '' && isEmptyNull(column) ? null : valueOf(text, column);
}

/** Returns an input for a column, by its type. */
export function inputFor(column, value, label) {
  const props = { 'aria-label': label, spellcheck: 'false', autocomplete: 'off' };
  const choices = column.type === 'boolean' ? ['true', 'false'] : column.members;
  if (choices) {
    const options = column.nullable || value === null || value === undefined ? ['', ...choices] : choices;
    const select = h('select', props, options.map((text) => h('option', { value: text }, text || 'null')));
    select.value = textOf(value, column);
    return select;
  }
  const text = textOf(value, column);
  if (column.type === 'json' || text.length > 80 || text.includes('\n')) {
    const rows = Math.min(16, Math.max(2, text.split('\n').length, Math.ceil(text.length / 90)));
    const area = h('textarea', { ...props, rows, class: column.type === 'json' ? 'mono' : null });
    area.value = text;
    return area;
  }
  const mode = { integer: 'numeric', number: 'decimal', decimal: 'decimal' }[column.type];
  const input = h('input', { ...props, type: 'text', inputmode: mode, placeholder: hints[column.type] });
  input.value = text;
  return input;
}

const hints = {
  dateTime: '2026-11-20T20:32:22.404Z', date: '2026-11-20', time: '07:14:00',
  guid: '00000000-0000-0000-0000-000000000000', binary: 'base64',
};

/** Sends changes of a row. If there is a conflict, the user resolves it first. Calls `done(row)` with
 * the stored row, or without a row if nothing was written, and then returns false. */
export async function save(table, base, changes, done) {
  try {
    done(await patch(table, base, changes));
    return true;
  } catch (error) {
    if (error.status !== 412 || !error.body?.version) throw error;
    return openConflict(table, base, { ...base, ...changes }, error.body, done);
  }
}

function patch(table, row, changes) {
  return send('PATCH', `${rowPath(table.name, row.id)}?__includeDeleted=true`,
    { body: changes, headers: ifMatch(row) });
}

/** Deletes a row. If it has changed since it was loaded, shows the changes and asks first. */
export async function remove(table, row, done) {
  if (!table.softDelete && !await confirmed(`Delete row ${row.id}? It cannot be undeleted.`, 'Delete')) return;
  try {
    await send('DELETE', rowPath(table.name, row.id), { headers: ifMatch(row) });
    say(`Row ${row.id} was deleted.`);
    done();
  } catch (error) {
    if (error.status !== 412 || !error.body?.version) throw error;
    const theirs = error.body;
    const dialog = openDialog('Row changed',
      h('h2', {}, 'The row changed'),
      comparison(table, row, theirs),
      h('div', { class: 'bar' },
        button('Delete it anyway', async () => {
          dialog.close();
          try { await remove(table, theirs, done); } catch (other) { say(other.message, true); }
        }, { class: 'bad' }),
        button('Keep it', () => dialog.close(), { autofocus: true })));
    dialog.addEventListener('close', () => done());
  }
}

/** Undeletes a row. */
export async function undelete(table, row, done) {
  await save(table, row, { deleted: false }, (saved) => {
    if (saved) say(`Row ${row.id} was undeleted.`);
    done(saved);
  });
}

function comparison(table, one, other) {
  const columns = table.columns.filter(({ name }) => !same(one[name], other[name]));
  return h('table', { class: 'three' },
    h('thead', {}, h('tr', {}, ['Column', 'Loaded', 'Current'].map((text) => h('th', { scope: 'col' }, text)))),
    h('tbody', {}, columns.map((column) => h('tr', {}, h('th', { scope: 'row' }, column.name),
      [one, other].map((row) => h('td', {}, shownValue(row[column.name], column)))))));
}

function confirmed(text, action) {
  return new Promise((answer) => {
    const dialog = openDialog('Please confirm', h('p', {}, text), h('div', { class: 'bar' },
      button(action, () => { answer(true); dialog.close(); }, { class: 'bad' }),
      button('Cancel', () => dialog.close(), { autofocus: true })));
    dialog.addEventListener('close', () => answer(false));
  });
}

function shownValue(value, column) {
  return value === null || value === undefined ? h('em', { class: 'note' }, 'null')
    : h('pre', { class: column?.type === 'json' ? 'value mono' : 'value', dir: 'auto' }, textOf(value, column));
}

/** Shows base, mine and theirs side by side; the user picks a value for each column. Resolves to
 * whether the conflict was resolved. */
function openConflict(table, base, mine, theirs, done) {
  const end = Promise.withResolvers();
  const rows = table.columns.filter(({ name }) => !same(base[name], mine[name]) || !same(base[name], theirs[name]));
  const radios = [];
  const place = h('div', {});
  let isOver = false;
  const finish = (result) => {
    isOver = true;
    end.resolve(result);
    dialog.close();
  };
  const settled = (row) => {
    say('The conflict is resolved.');
    done(row);
  };
  const lines = rows.map((column) => {
    const name = column.name;
    const isMine = !same(base[name], mine[name]);
    const isTheirs = !same(base[name], theirs[name]);
    const isBoth = isMine && isTheirs && !same(mine[name], theirs[name]);
    const pick = (side, value, isOn) => {
      const radio = h('input', { type: 'radio', name: `pick-${name}`, value: side, checked: isOn, 'aria-label': `${name}: ${side}` });
      radios.push({ name, side, radio });
      return h('label', {}, radio, shownValue(value, column));
    };
    return h('tr', { class: isBoth ? 'both' : null },
      h('th', { scope: 'row' }, name, isBoth && h('small', { class: 'note' }, ' changed on both sides')),
      h('td', { class: 'same' }, shownValue(base[name], column)),
      h('td', {}, pick('mine', mine[name], isMine && !isBoth)),
      h('td', {}, pick('theirs', theirs[name], isTheirs && !isMine)));
  });
  const all = (side) => () => { for (const entry of radios) if (entry.side === side) entry.radio.checked = true; };
  const settle = async () => {
    const chosen = {};
    for (const column of rows) {
      const entry = radios.find((one) => one.name === column.name && one.radio.checked);
      if (!entry) {
        fill(place, problem(new Error(`Choose mine or theirs for ${column.name}.`)));
        radios.find((one) => one.name === column.name).radio.focus();
        return;
      }
      const value = (entry.side === 'mine' ? mine : theirs)[column.name] ?? null;
      if (!same(value, theirs[column.name])) chosen[column.name] = value;
    }
    if (theirs.deleted) chosen.deleted = false;
    try {
      settled(Object.keys(chosen).length ? await patch(table, theirs, chosen) : theirs);
      finish(true);
    } catch (error) {
      // The row changed again: replace this dialog with one for the new conflict.
      if (error.status === 412 && error.body?.version) {
        finish(openConflict(table, theirs, { ...theirs, ...chosen }, error.body, done));
      } else fill(place, problem(error));
    }
  };
  const dialog = openDialog('Conflict',
    h('h2', {}, 'Another user changed this row'),
    h('p', { class: 'note' }, theirs.deleted
      ? `Row ${base.id} was deleted. Saving undeletes it.` : `Row ${base.id}. Choose a value for each column.`),
    h('div', { class: 'scroll' }, h('table', { class: 'three', id: 'conflict' },
      h('thead', {}, h('tr', {}, ['Column', 'Base', 'Mine', 'Theirs'].map((text) => h('th', { scope: 'col' }, text)))),
      h('tbody', {}, lines))),
    place,
    h('div', { class: 'bar' },
      button('All mine', all('mine')), button('All theirs', all('theirs')), h('span', { class: 'grow' }),
      button(theirs.deleted ? 'Leave it deleted' : 'Cancel', () => dialog.close()),
      button(theirs.deleted ? 'Undelete and save' : 'Save', settle, { class: 'main', id: 'settle' })));
  dialog.addEventListener('close', () => {
    if (isOver) return;
    end.resolve(false);
    done();
  });
  return end.promise;
}

/** Opens the form of a row; `row` is undefined for a new row. */
export function openRow(table, row, { mayChange, done, focus }) {
  const place = h('div', {});
  const inputs = [];
  const fields = table.columns.map((column) => {
    const value = row?.[column.name];
    const input = inputFor(column, value, column.name);
    const entry = { column, input, old: value, isTouched: false, isNull: null };
    const isFixed = row && column.name === table.owner;
    input.disabled = !mayChange || isFixed;
    input.addEventListener('input', () => {
      entry.isTouched = true;
      if (entry.isNull) entry.isNull.checked = false;
    });
    let isNull;
    if (column.nullable && input.tagName !== 'SELECT' && !isFixed) {
      entry.isNull = h('input', {
        type: 'checkbox', checked: row && (value ?? null) === null, disabled: !mayChange, 'aria-label': `${column.name} is null`,
        onchange: () => { entry.isTouched = true; },
      });
      isNull = h('label', { class: 'note' }, entry.isNull, ' null');
    }
    if (focus === column.name) input.setAttribute('autofocus', '');
    inputs.push(entry);
    return h('div', { class: 'field' },
      h('label', {}, column.name, h('small', {}, isFixed ? 'the owner cannot change' : column.type + (column.nullable ? '' : ', not null'))), input, isNull);
  });
  const id = h('input', { type: 'text', placeholder: 'assigned by the server', 'aria-label': 'id' });
  const head = row
    ? ['id', ...systemNames].map((name) => h('div', { class: 'field' }, h('span', {}, name),
      h('span', { class: 'mono value' }, String(row[name]))))
    : [h('div', { class: 'field' }, h('label', {}, 'id', h('small', {}, 'string')), id)];
  const collect = () => {
    const values = {};
    // Send only the edited columns: others keep their value or get their default.
    for (const { column, input, old, isTouched, isNull } of inputs) {
      if (!isTouched) continue;
      const value = isNull?.checked ? null
        : input.tagName === 'SELECT' && input.value === '' ? null
          : column.type === 'string' ? input.value : editedValue(input.value, column, undefined);
      if (!row || !same(value, old)) values[column.name] = value;
    }
    return values;
  };
  const store = async () => {
    fill(place);
    try {
      const values = collect();
      if (row) {
        // If the user cancelled a conflict, keep the form open with the typed values.
        if (Object.keys(values).length && !await save(table, row, values, done)) return;
      } else {
        if (id.value) values.id = id.value;
        const made = await send('POST', `tables/${encodeURIComponent(table.name)}`, { body: values });
        say(`Row ${made?.id ?? ''} was added.`);
        done(made);
      }
      dialog.close();
    } catch (error) { fill(place, problem(error)); }
  };
  const act = (body) => async () => {
    try { dialog.close(); await body(table, row, done); } catch (error) { say(error.message, true); }
  };
  const dialog = openDialog(row ? `Row ${row.id}` : `New row of ${table.name}`,
    h('h2', {}, row ? 'Row' : `New row of ${table.name}`),
    h('form', { method: 'dialog', onsubmit: (event) => { event.preventDefault(); store(); } },
      head, fields, place,
      h('div', { class: 'bar' },
        row && mayChange && !row.deleted && table.may.delete && button('Delete', act(remove), { class: 'bad' }),
        row?.deleted && mayChange && button('Undelete', act(undelete)),
        h('span', { class: 'grow' }),
        button(mayChange ? 'Cancel' : 'Close', () => dialog.close()),
        mayChange && !row?.deleted && h('button', { class: 'main', id: 'save' }, row ? 'Save' : 'Add'))));
}
