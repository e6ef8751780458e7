// main.js: the frame of the page: sign-in, the list of tables, navigation, live updates.

import { h, fill, problem } from './element.js';
import { get, listen, token } from './server.js';
import { TableView } from './rows.js';
import { ActivityView, DevicesView, SettingsView } from './status.js';

const pollTime = 3000;
const countPause = 1000;
const views = { activity: ['Activity', ActivityView], devices: ['Devices', DevicesView], settings: ['Settings', SettingsView] };

const main = document.getElementById('main');
const nav = document.getElementById('nav');
const live = document.getElementById('live');
const counts = new Map();
let overview;
let shown;
let timer;
let line;

/** Parses the address of a view: `#/table/Name?filter=…`, `#/activity`. */
function address() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [kind, name] = path.split('/').map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return { kind, name, view: Object.fromEntries(new URLSearchParams(query ?? '')) };
}

function keep(name, { filter, order, deleted }) {
  const query = new URLSearchParams();
  if (filter) query.set('filter', filter);
  if (order) query.set('order', order);
  if (deleted) query.set('deleted', 'true');
  const text = query.toString();
  history.replaceState(null, '', `#/table/${encodeURIComponent(name)}${text ? `?${text}` : ''}`);
}

async function start() {
  try {
    overview = await get('overview');
  } catch (refusal) {
    if (refusal.status === 401 || refusal.status === 403 && token.get()) return signIn(token.get() ? refusal : null);
    return fill(main, problem(refusal));
  }
  document.getElementById('who').textContent = overview.operator ?? '';
  document.getElementById('signout').hidden = !overview.operator;
  const mode = document.getElementById('mode');
  mode.hidden = overview.mode !== 'readOnly';
  mode.textContent = 'read only';
  connect();
  show();
  for (const name of readable()) await countNow(name);
}

const readable = () => overview.tables.filter(({ may }) => may.read).map(({ name }) => name);

/** Opens the stream of events, after it closed a previous one. */
function connect() {
  line?.abort();
  line = new AbortController();
  if (!readable().length) return;
  listen(readable(), changed, (isLive) => {
    live.textContent = isLive ? 'live' : 'not live';
    live.className = isLive ? 'tag good' : 'tag bad';
  }, line.signal);
}

function signIn(refusal) {
  line?.abort();
  line = undefined;
  fill(nav);
  live.textContent = '';
  document.getElementById('who').textContent = '';
  document.getElementById('signout').hidden = true;
  const input = h('input', { type: 'password', id: 'token', autocomplete: 'off', 'aria-describedby': 'token-note' });
  fill(main, h('form', {
    class: 'sign', onsubmit: (event) => {
      event.preventDefault();
      token.set(input.value.trim().replace(/^Bearer\s+/i, ''));
      start();
    },
  }, h('h2', {}, 'Sign in'),
  h('p', { id: 'token-note' }, 'A token of a user whose sub is in authentication.operators. It stays in this tab only. ',
    'To create one: ', h('code', {}, 'tideline token --config FILE --subject NAME')),
  refusal && problem(refusal),
  h('label', { for: 'token' }, 'Token'), input, h('button', { class: 'main' }, 'Sign in')));
  input.focus();
}

document.getElementById('signout').addEventListener('click', () => {
  token.set('');
  counts.clear();
  location.hash = '';
  start();
});

/** Shows the view that the address names. */
function show() {
  clearTimeout(timer);
  shown?.close?.();
  let { kind, name, view } = address();
  if (!Object.hasOwn(views, kind) && (kind !== 'table' || !overview.tables.some((table) => table.name === name))) {
    [kind, name] = overview.tables.length ? ['table', overview.tables[0].name] : ['activity'];
  }
  showNav(kind, name);
  if (kind === 'table') {
    const table = overview.tables.find((one) => one.name === name);
    shown = new TableView(table, {
      mode: overview.mode, view: { ...view, deleted: view.deleted === 'true' }, keep: (one) => keep(name, one),
    });
    fill(main, shown.root);
    shown.reopen();
  } else {
    shown = new views[kind][1]();
    fill(main, shown.root);
    shown.show(overview);
    if (kind !== 'settings') poll(shown);
  }
  document.title = `${kind === 'table' ? name : views[kind][0]} – Tideline`;
}

function showNav(kind, name) {
  const link = (href, text, isHere, more) => h('li', {}, h('a', { href, 'aria-current': isHere ? 'page' : null }, h('span', {}, text), more));
  fill(nav,
    h('h2', {}, 'Tables'),
    h('ul', {}, overview.tables.map((table) => link(`#/table/${encodeURIComponent(table.name)}`, table.name, name === table.name,
      h('span', { class: 'count', 'data-table': table.name }, counts.get(table.name) ?? '')))),
    h('h2', {}, 'Server'),
    h('ul', {}, Object.entries(views).map(([key, [text]]) => link(`#/${key}`, text, kind === key))));
  nav.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
}

/** Reloads the server's state at intervals while its view is shown. */
function poll(view) {
  timer = setTimeout(async () => {
    try {
      const next = document.hidden ? null : await get('overview');
      if (shown !== view) return;
      if (next) view.show(next);
    } catch (refusal) {
      if (refusal.status === 401) return signIn(refusal);
    }
    if (shown === view) poll(view);
  }, pollTime);
}

// --- Live

const waiting = new Map();

/** Runs one task at a time for each key, with a pause after it: a table with many changes is read
 * once a second, and reads of a large table take at most a tenth of the time. */
function seldom(key, body) {
  const entry = waiting.get(key);
  if (entry) { entry.isAgain = true; return; }
  const state = { isAgain: false };
  waiting.set(key, state);
  (async () => {
    do {
      state.isAgain = false;
      const begun = performance.now();
      await body();
      const pause = Math.max(countPause, 10 * (performance.now() - begun));
      await new Promise((done) => setTimeout(done, pause));
    } while (state.isAgain);
    waiting.delete(key);
  })();
}

function changed(name) {
  if (shown instanceof TableView && shown.table.name === name) seldom(`rows ${name}`, () => shown.table?.name === name && shown.changed());
  count(name);
}

const count = (name) => seldom(`count ${name}`, () => countNow(name));

async function countNow(name) {
  try {
    const { count: number } = await get(`tables/${encodeURIComponent(name)}?$top=0&$count=true`);
    counts.set(name, Number(number).toLocaleString('en'));
    for (const place of nav.querySelectorAll('.count')) if (place.dataset.table === name) place.textContent = counts.get(name);
  } catch { /* The list of tables has one number less. */ }
}

document.addEventListener('unauthorized', ({ detail }) => signIn(detail));
addEventListener('hashchange', async () => {
  if (!overview) return;
  show();
  // There may be new tables, from a dynamic schema or after a restart of the server.
  const next = await get('overview').catch(() => null);
  if (next && JSON.stringify(next.tables) !== JSON.stringify(overview.tables)) start();
});
// A browser has few connections to a server, so a hidden tab closes its stream of events.
document.addEventListener('visibilitychange', () => {
  if (!line) return;
  if (document.hidden) return line.abort();
  connect();
  for (const name of readable()) changed(name);
});
addEventListener('pagehide', () => line?.abort());
start();
