// server.js: all requests to the server: token, errors, exact numbers, events.

const tokenKey = 'tideline.token';

/** An error response of the server, with the position in the text that it is about. */
export class Refusal extends Error {
  constructor(status, message, position, body) {
    super(message);
    this.status = status;
    this.position = position;
    this.body = body;
  }
}

/** The operator's token, kept in this tab until it is closed. */
export const token = {
  get: () => sessionStorage.getItem(tokenKey) ?? '',
  set: (text) => text ? sessionStorage.setItem(tokenKey, text) : sessionStorage.removeItem(tokenKey),
};

/** A number that a JavaScript number cannot represent exactly. */
class LongNumber {
  constructor(text) { this.text = text; }
  toJSON() { return JSON.rawJSON ? JSON.rawJSON(this.text) : Number(this.text); }
  toString() { return this.text; }
}

/** Parses a number, as a `LongNumber` if necessary. */
export function numberOf(text) {
  const number = Number(text);
  return String(number) === text || !JSON.rawJSON ? number : new LongNumber(text);
}

/** Parses JSON without losing digits of numbers. */
export function parse(text) {
  return JSON.parse(text, (_, value, context) =>
    typeof value === 'number' && context?.source !== undefined ? numberOf(context.source) : value);
}

export const isNumber = (value) => typeof value === 'number' || value instanceof LongNumber;

/** Whether two values have the same JSON. */
export function same(one, other) {
  return one === other || JSON.stringify(one ?? null) === JSON.stringify(other ?? null);
}

function fields(more) {
  const headers = { ...more };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  return headers;
}

/** Sends a request; throws a `Refusal` for an error, with the current row as its body. */
export async function send(method, path, { body, headers, signal } = {}) {
  const more = { ...headers };
  if (body !== undefined) more['Content-Type'] = 'application/json';
  let answer;
  let text;
  try {
    answer = await fetch(`/$admin/${path}`, {
      method, signal, headers: fields(more), cache: 'no-store', credentials: 'omit', redirect: 'error',
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    text = await answer.text();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Refusal(0, 'The server does not respond.');
  }
  let read;
  try { read = text ? parse(text) : undefined; } catch { read = undefined; }
  if (answer.ok) return read;
  const message = read?.error ?? (answer.status === 409
    ? 'A row with this id already exists.' : `The server rejected the request (${answer.status}).`);
  throw new Refusal(answer.status, message, read?.position, read);
}

export const get = (path, options) => send('GET', path, options);

export function rowPath(table, id) {
  return `tables/${encodeURIComponent(table)}/${encodeURIComponent(id)}`;
}

/** Returns the condition that a row still has this version. */
export const ifMatch = (row) => ({ 'If-Match': `"${row.version}"` });

/** Listens to changes until aborted; calls `changed(name)` for each, `state(isLive)` for the stream. */
export async function listen(tables, changed, state, signal) {
  let last = '';
  let wait = 500;
  while (!signal.aborted) {
    try {
      const names = tables.slice(0, 64).map(encodeURIComponent).join(',');
      const answer = await fetch(`/$admin/events?tables=${names}`, {
        signal, headers: fields(last ? { 'Last-Event-ID': last } : {}), cache: 'no-store',
        credentials: 'omit',
      });
      if (!answer.ok) throw new Error(`${answer.status}`);
      state(true);
      wait = 500;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const events = (rest + value).split('\n\n');
        rest = events.pop();
        for (const event of events) {
          for (const line of event.split('\n')) {
            if (line.startsWith('id: ')) last = line.slice(4);
            if (line.startsWith('data: ')) changed(JSON.parse(line.slice(6)).table);
          }
        }
      }
    } catch { /* The line is down: try again below. */ }
    if (signal.aborted) return;
    state(false);
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, 15000);
  }
}
