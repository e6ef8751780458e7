// filter.js: the input for an OData filter, with completions and error positions.

import { h, fill } from './element.js';

const functions = [
  'contains(', 'startswith(', 'endswith(', 'length(', 'indexof(', 'substring(', 'replace(', 'tolower(',
  'toupper(', 'trim(', 'concat(', 'matchesPattern(', 'year(', 'month(', 'day(', 'hour(', 'minute(', 'second(',
  'fractionalseconds(', 'totaloffsetminutes(', 'date(', 'time(', 'now()', 'floor(', 'ceiling(', 'round(', 'cast(', 'isof(',
];
const words = ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in', 'has', 'and', 'or', 'not', 'null', 'true', 'false', 'add', 'sub', 'mul', 'div', 'divby', 'mod'];
const systemColumns = [['id', 'string'], ['createdAt', 'dateTime'], ['updatedAt', 'dateTime'], ['version', 'string'], ['deleted', 'boolean']];

/** Returns completions for a position in a filter. */
export function proposals(text, place, columns) {
  const before = text.slice(0, place);
  if ((before.match(/'/g) ?? []).length % 2) return { start: place, list: [] };
  const start = place - (/[A-Za-z_]\w*$/.exec(before)?.[0].length ?? 0);
  const begun = before.slice(start).toLowerCase();
  if (!begun) return { start, list: [] };
  const all = [
    ...columns.map(({ name, type }) => [name, type]), ...systemColumns,
    ...functions.map((name) => [name, 'function']), ...words.map((name) => [name, 'word']),
  ];
  const list = all.filter(([name]) => name.toLowerCase().startsWith(begun) && name.toLowerCase() !== begun);
  return { start, list: list.slice(0, 12) };
}

/** Converts an offset in UTF-8 bytes to an index into the text. */
export function placeOf(text, bytes) {
  return new TextDecoder().decode(new TextEncoder().encode(text).slice(0, bytes)).length;
}

/** Creates the input. `apply(text)` is called with the filter, and may throw a `Refusal`. */
export function filterLine(columns, text, apply) {
  let list = [];
  let start = 0;
  let active = -1;
  const box = h('ul', { role: 'listbox', id: 'proposals', hidden: true, 'aria-label': 'Completions' });
  const input = h('input', {
    type: 'search', id: 'filter', role: 'combobox', 'aria-label': 'OData filter', 'aria-controls': 'proposals',
    'aria-expanded': 'false', 'aria-autocomplete': 'list', autocomplete: 'off', spellcheck: 'false',
    placeholder: "filter, such as startswith(text,'a') and complete eq false",
  });
  input.value = text;
  const error = h('div', { id: 'filter-error', role: 'alert' });

  const show = () => {
    box.hidden = list.length === 0;
    input.setAttribute('aria-expanded', String(!box.hidden));
    if (active >= 0) input.setAttribute('aria-activedescendant', `proposal-${active}`);
    else input.removeAttribute('aria-activedescendant');
    fill(box, list.map(([name, kind], place) => h('li', {
      role: 'option', id: `proposal-${place}`, 'aria-selected': String(place === active),
      onmousedown: (event) => { event.preventDefault(); take(place); },
    }, h('span', {}, name), h('small', {}, kind))));
    box.children[active]?.scrollIntoView({ block: 'nearest' });
  };
  const close = () => { list = []; active = -1; show(); };
  const take = (place) => {
    const [name] = list[place];
    const end = input.selectionStart;
    const added = /[()]$/.test(name) ? name : `${name} `;
    input.setRangeText(added, start, end, 'end');
    close();
    input.focus();
  };
  const run = async () => {
    close();
    fill(error);
    input.removeAttribute('aria-invalid');
    try {
      await apply(input.value.trim());
    } catch (refusal) {
      input.setAttribute('aria-invalid', 'true');
      fill(error, h('div', { class: 'problem' }, refusal.message, mark(refusal)));
    }
  };
  /** Marks the position of an error below the text, and moves the cursor there. */
  const mark = (refusal) => {
    if (refusal.position === undefined) return null;
    const text = input.value.trim();
    const place = placeOf(text, refusal.position);
    input.setSelectionRange(place, Math.min(place + 1, text.length));
    const from = Math.max(0, place - 60);
    return h('pre', {}, `${text.slice(from, place + 60)}\n${' '.repeat(place - from)}^`);
  };
  input.addEventListener('input', () => {
    ({ start, list } = proposals(input.value, input.selectionStart, columns));
    active = -1;
    show();
    if (input.value === '') run();
  });
  input.addEventListener('blur', close);
  input.addEventListener('keydown', (event) => {
    if (list.length && (event.key === 'ArrowDown' || event.key === 'ArrowUp')) {
      event.preventDefault();
      active = (active + (event.key === 'ArrowDown' ? 1 : -1) + list.length + (active < 0 && event.key === 'ArrowUp' ? 1 : 0)) % list.length;
      show();
    } else if (list.length && event.key === 'Tab' && !event.shiftKey) {
      event.preventDefault();
      take(Math.max(active, 0));
    } else if (event.key === 'Escape' && list.length) {
      event.preventDefault();
      close();
    } else if (event.key === 'Enter') {
      event.preventDefault();
      if (active >= 0) take(active); else run();
    }
  });
  return { line: h('div', { class: 'filter' }, input, box), error, run, refuse: (refusal) => { fill(error, h('div', { class: 'problem' }, refusal.message, mark(refusal))); } };
}
