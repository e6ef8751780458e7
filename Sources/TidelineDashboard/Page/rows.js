// rows.js: the view of a table's rows: a grid with filter, order, pages, editing and live updates.

import { h, button, fill, problem, say } from './element.js';
import { get, same, isNumber } from './server.js';
import { filterLine } from './filter.js';
import { editedValue, inputFor, openRow, remove, save, undelete } from './editor.js';
import { openExport, openImport } from './files.js';

const textMax = 300;
const system = [['updatedAt', 'dateTime'], ['createdAt', 'dateTime'], ['version', 'string']];

/** Returns the query of the first page; an export uses it, too. */
export function firstQuery({ filter, order, deleted }, counts) {
  const query = new URLSearchParams();
  if (filter) query.set('$filter', filter);
  if (order) query.set('$orderby', order);
  if (deleted) query.set('__includeDeleted', 'true');
  if (counts) query.set('$count', 'true');
  return query.toString();
}

/** The view of a table. It calls `keep(view)` when filter or order change, to update the address. */
export class TableView {
  constructor(table, { mode, view, keep }) {
    this.table = table;
    this.mayWrite = mode === 'readWrite';
    this.view = { filter: '', order: '', deleted: false, size: 100, ...view };
    this.keep = keep;
    this.rows = [];
    this.queries = [];
    this.number = 0;
    this.focus = { id: null, column: 0 };
    this.columns = [{ name: 'id', type: 'string', isSystem: true }, ...table.columns,
      ...system.map(([name, type]) => ({ name, type, isSystem: true }))];
    this.root = this.make();
  }

  get mayUpdate() { return this.mayWrite && this.table.may.update; }

  make() {
    const { table, view } = this;
    this.filter = filterLine(table.columns, view.filter, async (text) => {
      this.view.filter = text;
      this.keep(this.view);
      await this.open();
    });
    this.deleted = h('input', {
      type: 'checkbox', id: 'deleted', checked: view.deleted,
      onchange: () => { this.view.deleted = this.deleted.checked; this.keep(this.view); this.reopen(); },
    });
    this.size = h('select', {
      'aria-label': 'Rows per page', onchange: () => { this.view.size = Number(this.size.value); this.reopen(); },
    }, [50, 100, 500].map((size) => h('option', { value: size }, `${size} per page`)));
    this.size.value = String(view.size);
    this.body = h('tbody', {});
    this.heads = h('tr', {});
    this.grid = h('table', { class: 'rows', role: 'grid', 'aria-label': `Rows of ${table.name}` },
      h('thead', {}, this.heads), this.body);
    this.grid.addEventListener('keydown', (event) => this.key(event));
    this.grid.addEventListener('dblclick', (event) => this.edit(event.target.closest('td')));
    this.grid.addEventListener('focusin', (event) => this.remember(event.target.closest('td')));
    this.count = h('span', { class: 'note', id: 'count' });
    this.back = button('‹ Previous', () => this.turn(-1));
    this.next = button('Next ›', () => this.turn(1), { id: 'next' });
    this.place = h('div', {});
    return h('section', { 'aria-label': table.name },
      h('div', { class: 'bar' }, h('h2', {}, table.name), this.count, h('span', { class: 'grow' }),
        this.mayWrite && table.may.insert && button('New row', () => this.add(), { class: 'main', id: 'new' }),
        this.mayWrite && table.may.insert && button('Import', () => openImport(table, () => this.reopen())),
        button('Export', () => openExport(table, this.view))),
      h('div', { class: 'bar' }, this.filter.line, button('Apply', () => this.filter.run()),
        table.softDelete && h('label', {}, this.deleted, ' deleted rows')),
      this.filter.error, this.place,
      h('div', { class: 'scroll' }, this.grid),
      h('div', { class: 'bar' }, this.back, this.next, this.size,
        h('span', { class: 'note' }, 'Arrow keys move, Enter edits, Space opens a row.')));
  }

  /** Shows the first page; throws a `Refusal`. */
  async open() {
    this.queries = [firstQuery(this.view, true)];
    this.number = 0;
    await this.load();
  }

  /** Shows the first page, or the error. */
  async reopen() {
    try { await this.open(); } catch (refusal) { this.refuse(refusal); }
  }

  refuse(refusal) {
    if (refusal.status === 401) document.dispatchEvent(new CustomEvent('unauthorized', { detail: refusal }));
    if (refusal.position !== undefined && this.view.filter) this.filter.refuse(refusal);
    else fill(this.place, problem(refusal));
  }

  async turn(step) {
    this.number += step;
    try {
      await this.load();
      this.grid.parentElement.scrollTop = 0;
    } catch (refusal) {
      this.number -= step;
      this.refuse(refusal);
    }
  }

  /** Reloads the page. After a change, 'own' or 'live', the changed cells flash; after 'live' a
   * message says which rows changed. */
  async load(change = '') {
    this.stop?.abort();
    const stop = new AbortController();
    this.stop = stop;
    const number = this.number;
    const query = this.queries[number];
    const path = `tables/${encodeURIComponent(this.table.name)}?${query}`;
    let page;
    try {
      page = await get(path, { headers: { Prefer: `maxpagesize=${this.view.size}` }, signal: stop.signal });
    } catch (error) {
      if (error.name === 'AbortError') return;
      throw error;
    }
    if (stop.signal.aborted || number !== this.number) return;
    // An edit began after this request was sent, and a new grid would end it.
    if (change && this.isEditing) { this.isStale = true; return; }
    fill(this.place);
    fill(this.filter.error);
    this.queries.length = number + 1;
    if (page.nextLink) this.queries.push(page.nextLink.replace(/^.*\?/, ''));
    this.show(page, change);
  }

  /** Handles a change event of the table, but does not interrupt an edit. */
  async changed() {
    if (this.isEditing) { this.isStale = true; return; }
    try { await this.load('live'); } catch { /* The next change, or the person, tries again. */ }
  }

  show(page, change) {
    const old = new Map(this.rows.map((row) => [row.id, row]));
    const lines = new Map([...this.body.children].map((line) => [line.rowID, line]));
    const active = document.activeElement;
    const hadFocus = this.body.contains(active) && active.closest('td') === active;
    const changed = [];
    this.rows = page.items;
    if (this.rows.every(({ id }) => id !== this.focus.id)) this.focus = { ...this.focus, id: this.rows[0]?.id };
    this.body.replaceChildren(...this.rows.map((row) => {
      const isKnown = old.get(row.id)?.version === row.version;
      const line = isKnown && lines.get(row.id) || this.line(row);
      if (!isKnown && change) {
        changed.push(row.id);
        line.classList.add('flash');
      }
      return line;
    }));
    for (const line of this.body.children) for (const cell of line.cells) cell.tabIndex = -1;
    const cell = this.cell(this.focus.id, this.focus.column);
    if (cell) cell.tabIndex = 0;
    if (hadFocus) cell?.focus({ preventScroll: true });
    this.showHeads();
    const first = this.number ? `page ${this.number + 1}, ` : '';
    const total = isNumber(page.count) ? Number(page.count).toLocaleString('en') : this.rows.length;
    fill(this.count, `${first}${total} row${Number(page.count) === 1 ? '' : 's'}${this.view.filter ? ' match' : ''}`);
    this.back.disabled = this.number === 0;
    this.next.disabled = this.queries.length <= this.number + 1;
    if (changed.length && change === 'live') say(changed.length === 1 ? `Row ${changed[0]} changed.` : `${changed.length} rows changed.`);
    if (!this.rows.length) {
      this.body.append(h('tr', {}, h('td', { colspan: this.columns.length + 1, class: 'note' },
        this.view.filter ? 'No row matches.' : 'There are no rows.')));
    }
  }

  showHeads() {
    const [name, way] = this.view.order.split(' ');
    fill(this.heads, h('th', { scope: 'col' }, h('span', { class: 'note' }, '')), this.columns.map((column) => {
      const sort = column.name === name ? (way === 'desc' ? 'descending' : 'ascending') : 'none';
      const arrow = { ascending: ' ▲', descending: ' ▼', none: '' }[sort];
      return h('th', { scope: 'col', 'aria-sort': sort },
        column.type === 'json' ? column.name : button(column.name + arrow, () => this.sort(column.name, sort)),
        h('small', {}, column.type));
    }));
  }

  sort(name, sort) {
    this.view.order = { none: name, ascending: `${name} desc`, descending: '' }[sort];
    this.keep(this.view);
    this.reopen();
  }

  line(row) {
    const line = h('tr', { class: row.deleted ? 'gone' : null }, h('td', { class: 'act' },
      button('Open', () => this.openRow(row), { 'aria-label': `Open row ${row.id}`, tabindex: '-1' }), ' ',
      row.deleted
        ? this.mayUpdate && button('Undelete', () => this.act(undelete, row), { tabindex: '-1' })
        : this.mayWrite && this.table.may.delete && button('Delete', () => this.act(remove, row), { class: 'bad', tabindex: '-1' })),
    this.columns.map((column) => this.filled(h('td', { role: 'gridcell' }), row, column)));
    line.rowID = row.id;
    return line;
  }

  filled(cell, row, column) {
    const value = row[column.name];
    let text = value === null || value === undefined ? 'null'
      : typeof value === 'object' && !isNumber(value) ? JSON.stringify(value) : String(value);
    if (text.length > textMax) text = `${text.slice(0, textMax)}…`;
    cell.className = [isNumber(value) && 'number', (value ?? null) === null && 'null', column.isSystem && 'system']
      .filter(Boolean).join(' ');
    cell.dir = 'auto';
    cell.textContent = text;
    return cell;
  }

  cell(id, column) {
    for (const line of this.body.children) if (line.rowID === id) return line.cells[column + 1];
    return undefined;
  }

  remember(cell) {
    const id = cell?.parentElement.rowID;
    if (id === undefined || cell.cellIndex < 1) return;
    const before = this.cell(this.focus.id, this.focus.column);
    if (before) before.tabIndex = -1;
    this.focus = { id, column: cell.cellIndex - 1 };
    cell.tabIndex = 0;
  }

  key(event) {
    const cell = event.target;
    if (cell.tagName !== 'TD' || event.ctrlKey || event.metaKey || event.altKey) return;
    const line = cell.parentElement;
    const place = cell.cellIndex;
    const lines = [...this.body.children];
    const at = lines.indexOf(line);
    const to = {
      ArrowRight: () => line.cells[place + 1], ArrowLeft: () => line.cells[Math.max(1, place - 1)],
      ArrowDown: () => lines[at + 1]?.cells[place], ArrowUp: () => lines[at - 1]?.cells[place],
      Home: () => line.cells[1], End: () => line.cells[line.cells.length - 1],
      PageDown: () => lines[Math.min(at + 15, lines.length - 1)].cells[place],
      PageUp: () => lines[Math.max(at - 15, 0)].cells[place],
    }[event.key];
    const row = this.rows.find(({ id }) => id === line.rowID);
    if (to) to()?.focus();
    else if (event.key === 'Enter' || event.key === 'F2') this.edit(cell);
    else if (event.key === ' ' && row) this.openRow(row);
    else return;
    event.preventDefault();
  }

  // --- Changes

  finished = (row) => {
    this.isEditing = false;
    this.isStale = false;
    if (row) this.focus = { ...this.focus, id: row.id };
    return this.load('own').catch((refusal) => this.refuse(refusal));
  };

  async act(body, row) {
    try { await body(this.table, row, this.finished); } catch (refusal) { this.failed(refusal); }
  }

  failed(refusal) {
    say(refusal.message, true);
    this.load().catch(() => {});
  }

  add() {
    openRow(this.table, undefined, { mayChange: true, done: this.finished });
  }

  openRow(row, focus) {
    openRow(this.table, row, { mayChange: this.mayUpdate, done: this.finished, focus });
  }

  /** Edits a cell in place; opens the form of the row for long texts and JSON. */
  edit(cell) {
    const row = this.rows.find(({ id }) => id === cell?.parentElement.rowID);
    const column = this.columns[(cell?.cellIndex ?? 0) - 1];
    if (!row || !column || this.isEditing) return;
    if (column.isSystem || column.name === this.table.owner || !this.mayUpdate || row.deleted) return void this.openRow(row);
    const old = row[column.name];
    const input = inputFor(column, old, `${column.name} of row ${row.id}`);
    if (input.tagName === 'TEXTAREA') return void this.openRow(row, column.name);
    this.isEditing = true;
    cell.classList.add('edits');
    fill(cell, input);
    input.focus();
    input.select?.();
    let isOver = false;
    const end = async (isKept, refocus) => {
      if (isOver) return;
      let value = old;
      if (isKept) {
        try { value = editedValue(input.value, column, old); } catch (refusal) {
          say(refusal.message, true);
          // Keep the typed text, unless the user has moved to another cell.
          if (refocus) return;
        }
      }
      isOver = true;
      this.isEditing = false;
      cell.classList.remove('edits');
      this.filled(cell, row, column);
      if (refocus) cell.focus();
      try {
        if (!same(value, old)) {
          this.isEditing = true;
          this.filled(cell, { ...row, [column.name]: value }, column);
          cell.setAttribute('aria-busy', 'true');
          await save(this.table, row, { [column.name]: value }, this.finished);
          return;
        }
      } catch (refusal) {
        this.isEditing = false;
        cell.removeAttribute('aria-busy');
        this.filled(cell, row, column);
        this.failed(refusal);
      }
      if (this.isStale) { this.isStale = false; this.changed(); }
    };
    input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' || event.key === 'Escape') {
        event.preventDefault();
        event.stopPropagation();
        end(event.key === 'Enter', true);
      } else if (event.key === 'Tab') {
        end(true, true);
        if (!isOver) event.preventDefault();
      }
    });
    input.addEventListener('blur', () => end(true, false));
  }

  close() {
    this.stop?.abort();
  }
}

