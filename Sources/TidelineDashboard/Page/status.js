// status.js: the views of the server's state: requests, devices, settings and schema.

import { h, fill, problem, bytes, ago, button } from './element.js';
import { get } from './server.js';

const svg = 'http://www.w3.org/2000/svg';
const pointsMax = 60;
const parts = { database: 'Database', log: 'Write-ahead log', ledger: 'Idempotency ledger' };

function spark(values) {
  const picture = document.createElementNS(svg, 'svg');
  const most = Math.max(...values, 1e-9);
  const line = document.createElementNS(svg, 'path');
  const points = values.map((value, place) => `${(place * 100) / (pointsMax - 1)},${31 - (value / most) * 28}`);
  line.setAttribute('d', points.length > 1 ? `M${points.join('L')}` : '');
  picture.setAttribute('viewBox', '0 0 100 34');
  picture.setAttribute('preserveAspectRatio', 'none');
  picture.setAttribute('aria-hidden', 'true');
  picture.append(line);
  return picture;
}

/** Returns a percentile of the counts of a histogram. */
export function percentile(counts, bounds, share) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (!total) return null;
  let sum = 0;
  const place = counts.findIndex((count) => { sum += count; return sum >= total * share; });
  return bounds[place] ?? Infinity;
}

const time = (microseconds) => microseconds === null ? '–'
  : microseconds === Infinity ? '> 10 s'
    : microseconds < 1000 ? `≤ ${microseconds} µs` : microseconds < 1e6 ? `≤ ${microseconds / 1000} ms` : `≤ ${microseconds / 1e6} s`;

function list(label, heads, lines, empty) {
  if (!lines.length) return h('p', { class: 'note' }, empty);
  return h('div', { class: 'scroll' }, h('table', { 'aria-label': label },
    h('thead', {}, h('tr', {}, heads.map((text) => h('th', { scope: 'col' }, text)))),
    h('tbody', {}, lines.map((cells) => h('tr', {}, cells.map((cell) => h('td', {}, cell)))))));
}

const card = (label, value, values) => h('div', { class: 'card' }, label, h('b', {}, value), values && spark(values));

/** Returns the requests and latencies of each route between two readings. */
function since(traffic, before) {
  return traffic.routes.map((route) => {
    const old = before?.routes.find((one) => one.route === route.route);
    return {
      route: route.route, requests: route.requests - (old?.requests ?? 0),
      latencies: route.latencies.map((count, place) => count - (old?.latencies[place] ?? 0)),
    };
  });
}

/** Returns the mean latency. Parts of a batch count as requests, but only the batch has a time. */
function mean(route) {
  const count = route.latencies.reduce((sum, one) => sum + one, 0);
  return count ? `${(route.microseconds / count / 1000).toFixed(2)} ms` : '–';
}

const own = (route) => route === 'dashboard' || route === 'health' || route === 'metrics';

/** The view of requests: rates over the last readings, totals since the start. */
export class ActivityView {
  constructor() {
    this.root = h('section', { 'aria-label': 'Activity' });
    this.rates = [];
    this.times = [];
  }

  show(overview) {
    const { traffic } = overview;
    const now = Date.parse(overview.now);
    const { bounds } = traffic;
    const seconds = this.before ? (now - this.beforeTime) / 1000 : (now - Date.parse(overview.started)) / 1000;
    const recent = since(traffic, this.before).filter(({ route }) => !own(route));
    const counts = bounds.concat(0).map((_, place) => recent.reduce((sum, route) => sum + route.latencies[place], 0));
    const rate = recent.reduce((sum, route) => sum + route.requests, 0) / Math.max(seconds, 0.001);
    if (this.before) {
      this.rates = [...this.rates, rate].slice(-pointsMax);
      this.times = [...this.times, Math.min(percentile(counts, bounds, 0.95) ?? 0, 1e7)].slice(-pointsMax);
    }
    this.before = traffic;
    this.beforeTime = now;
    fill(this.root,
      h('h2', {}, 'Activity'),
      h('div', { class: 'cards' },
        card('Requests per second', rate < 10 ? rate.toFixed(1) : Math.round(rate).toLocaleString('en'), this.rates),
        card('50 % within', time(percentile(counts, bounds, 0.5))),
        card('95 % within', time(percentile(counts, bounds, 0.95)), this.times),
        card('Waiting writes', traffic.writeQueue), card('Listeners', traffic.listeners),
        card('Rows sent', traffic.rowsSent.toLocaleString('en')), card('Rows written', traffic.rowsWritten.toLocaleString('en')),
        (overview.sizes ?? []).map(([part, size]) => card(parts[part] ?? part, bytes(size))),
        card('Response memory', bytes(traffic.answersBytes)),
        card('Uptime', ago(overview.started, now).replace(' ago', ''))),
      h('h3', {}, 'Since the server started'),
      list('Requests by route', ['Route', 'Requests', 'Rejected', 'Mean', '50 %', '95 %', '99 %'], traffic.routes.map((route) => [
        route.route, route.requests.toLocaleString('en'), route.refused.toLocaleString('en'),
        mean(route),
        ...[0.5, 0.95, 0.99].map((share) => time(percentile(route.latencies, bounds, share)))]), 'No requests yet.'),
      h('h3', {}, 'Slow requests'),
      list('Slow requests', ['When', 'Duration', 'Status', 'Request', 'Name'], overview.slow.map((entry) => [
        ago(entry.time, now), `${(entry.microseconds / 1000).toFixed(0)} ms`, entry.status,
        h('code', {}, `${entry.method} ${entry.path}${entry.query ? `?${entry.query}` : ''}`), h('code', {}, entry.id)]),
      'None (dashboard.slowTime).'));
  }
}

/** The view of devices. */
export class DevicesView {
  constructor() {
    this.root = h('section', { 'aria-label': 'Devices' });
  }

  show(overview) {
    const now = Date.parse(overview.now);
    fill(this.root,
      h('h2', {}, 'Devices'),
      h('p', { class: 'note' }, 'Devices that sent X-ZUMO-INSTALLATION-ID since the server started. A device is behind if a '
        + 'table changed after its last pull.'),
      list('Devices', ['Installation', 'User', 'Client', 'Last seen', 'Last pull', 'Last push', 'Behind'], overview.devices.map((device) => [
        h('code', {}, device.id), device.user, device.client, ago(device.lastSeen, now), ago(device.lastPull, now),
        ago(device.lastPush, now), device.behindSince ? `since ${ago(device.behindSince, now)}` : device.lastPull ? 'no' : '–']),
      'No device has sent its id yet.'));
  }
}

/** Returns an element that shows the number of tombstones once it is loaded. */
function deletedRows(table) {
  const place = h('span', {}, '…');
  get(`tables/${encodeURIComponent(table.name)}?$top=0&$count=true&__includeDeleted=true&$filter=deleted eq true`)
    .then(({ count }) => fill(place, Number(count).toLocaleString('en')), () => fill(place, '–'));
  return place;
}

/** The view of settings and schema. */
export class SettingsView {
  constructor() {
    this.steps = h('div', {}, button('Show migration', () => this.plan(), { id: 'plan' }));
    this.root = h('section', { 'aria-label': 'Settings' });
  }

  async plan() {
    try {
      const { steps } = await get('migration');
      fill(this.steps, steps.length ? h('ul', {}, steps.map((step) => h('li', {}, step)))
        : h('p', {}, 'Nothing to do: the tables match the configuration.'));
    } catch (error) { fill(this.steps, problem(error)); }
  }

  show(overview) {
    if (this.root.children.length) return;
    fill(this.root,
      h('h2', {}, 'Settings and schema'),
      h('h3', {}, 'Migration'), this.steps,
      h('h3', {}, 'Tables'),
      list('Columns', ['Table', 'Column', 'Type', 'Null', 'Rules'], overview.tables.flatMap((table) => table.columns.map((column, place) => [
        place ? '' : h('b', {}, table.name), column.name, column.type, column.nullable ? 'yes' : 'no',
        [column.members?.join(', '), column.maxLength && `at most ${column.maxLength}`, column.name === table.owner && 'owner']
          .filter(Boolean).join('; ')])), 'No tables.'),
      list('Tables', ['Table', 'Conflicts', 'Tombstones', 'Indexes', 'Allowed here'], overview.tables.map((table) => [
        table.name, table.conflict, table.softDelete ? deletedRows(table) : 'none', table.indexes.join('; '),
        Object.entries(table.may).filter(([, may]) => may).map(([name]) => name).join(', ')]), ''),
      h('h3', {}, 'Current settings'),
      list('Settings', ['Key', 'Value'], overview.settings.map(([key, value]) => [h('code', {}, key), h('code', {}, value)]), ''));
  }
}
