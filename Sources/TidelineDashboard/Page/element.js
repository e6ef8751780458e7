// element.js: elements made of values. Texts become text nodes and nothing else, so no value of a
// row can be markup; the page's policy (trusted types) forbids every other way too.

/** An element: `h('p', { class: 'note', onclick }, 'text', other)`. */
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

/** Adds children; nothing for null, undefined and false. */
export function put(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Puts children in the place of those that are there. */
export function fill(element, ...children) {
  element.replaceChildren();
  put(element, ...children);
}

/** A button. */
export function button(text, onclick, props) {
  return h('button', { type: 'button', onclick, ...props }, text);
}

/** Tells something for some seconds, also to screen readers. */
export function say(text, isBad) {
  const line = h('div', { class: isBad ? 'bad' : null }, text);
  const place = document.getElementById('said');
  place.append(line);
  while (place.children.length > 4) place.firstChild.remove();
  setTimeout(() => line.remove(), isBad ? 9000 : 4000);
}

/** Opens a dialog that goes when it is closed; focus returns to where it was. */
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

/** A refusal as a person reads it. */
export function problem(error) {
  return h('p', { class: 'problem', role: 'alert' }, error.message);
}

const sizes = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];

/** A number of bytes in words. */
export function bytes(count) {
  let place = 0;
  while (count >= 1024 && place < sizes.length - 1) { count /= 1024; place += 1; }
  return `${place ? count.toFixed(1) : count} ${sizes[place]}`;
}

/** How long ago a time was, in words. */
export function ago(time, now = Date.now()) {
  if (!time) return '–';
  const seconds = Math.max(0, Math.round((now - Date.parse(time)) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}
