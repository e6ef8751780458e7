// element.js: functions that build elements. Strings become text nodes only, so that a value of a
// row is never parsed as HTML; the page's policy (trusted types) forbids all other ways.

/** Creates an element: `h('p', { class: 'note', onclick }, 'text', other)`. */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked' || name === 'indeterminate') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  put(element, ...children);
  return element;
}

/** Appends children; skips null, undefined and false. */
export function put(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  put(element, ...children);
}

/** Creates a button. */
export function button(text, onclick, props) {
  return h('button', { type: 'button', onclick, ...props }, text);
}

/** Shows a message for some seconds, also to screen readers. */
export function say(text, isBad) {
  const line = h('div', { class: isBad ? 'bad' : null }, text);
  const place = document.getElementById('said');
  place.append(line);
  while (place.children.length > 4) place.firstChild.remove();
  setTimeout(() => line.remove(), isBad ? 9000 : 4000);
}

/** Opens a dialog. When it closes, it is removed and the focus returns to the previous element. */
export function openDialog(label, ...children) {
  const before = document.activeElement;
  const dialog = h('dialog', { 'aria-label': label }, ...children);
  dialog.addEventListener('close', () => {
    dialog.remove();
    if (before?.isConnected) before.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Returns an error as a paragraph. */
export function problem(error) {
  return h('p', { class: 'problem', role: 'alert' }, error.message);
}

const sizes = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];

/** Formats a number of bytes. */
export function bytes(count) {
  let place = 0;
  while (count >= 1024 && place < sizes.length - 1) { count /= 1024; place += 1; }
  return `${place ? count.toFixed(1) : count} ${sizes[place]}`;
}

/** Formats the time since `time`. */
export function ago(time, now = Date.now()) {
  if (!time) return '–';
  const seconds = Math.max(0, Math.round((now - Date.parse(time)) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}
