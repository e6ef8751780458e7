// demo.js: shows the state of the two phones and the server, and forwards clicks.

const pause = 300; // milliseconds between two requests for the state
const columns = [0, 1].map(makePhone);
let shown = "";

function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

async function act(phone, verb, more = {}) {
  const answer = await fetch("/api/demo/act", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ phone, verb, ...more }),
  }).catch(() => null);
  if (answer && !answer.ok && answer.status !== 404) console.error(await answer.text());
  await look();
}

// MARK: - A phone

function makePhone(number) {
  const root = document.getElementById(`phone-${number}`);
  root.append(document.getElementById("phone").content.cloneNode(true));
  const find = (selector) => root.querySelector(selector);
  const form = find(".add");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = form.elements.text.value;
    form.reset();
    if (text.trim()) act(number, "add", { text });
  });
  find(".network").addEventListener("change", (event) => act(number, "network", { isOn: event.target.checked }));
  find(".refresh").addEventListener("click", () => act(number, "refresh"));
  return { number, root, find, lines: new Map() };
}

function showPhone(column, phone) {
  const { root, find, number } = column;
  root.classList.toggle("offline", !phone.isOnline);
  find("h2").textContent = phone.name;
  find(".network").checked = phone.isOnline;
  find(".status").textContent = phone.isOnline ? phone.status : "no network";
  find(".problem").textContent = phone.problem ?? "";
  showItems(column, phone.items);
  list(find(".conflicts"), phone.conflicts, (conflict) => make("li", {},
    make("div", { textContent: `Here: ${conflict.mine}` }),
    make("div", { textContent: `Server: ${conflict.theirs}` }),
    make("button", { textContent: "Keep mine", onclick: () => act(number, "keepMine", { id: conflict.id }) }),
    make("button", { textContent: "Take theirs", onclick: () => act(number, "takeTheirs", { id: conflict.id }) })));
  list(find(".queue"), phone.queue, (operation) => make("li", {
    className: operation.isParked ? "parked" : "",
    textContent: `${operation.kind} ${operation.text ?? ""}${operation.isParked ? ": waits for you" : ""}`,
  }));
}

function list(root, entries, line) {
  root.replaceChildren(...entries.map(line));
  if (!entries.length) root.append(make("li", { className: "none", textContent: "none" }));
}

// Reuses the elements of the lines, so that a text that is being edited keeps its focus.
function showItems(column, items) {
  const { lines, number } = column;
  const root = column.find(".items");
  for (const [id, line] of lines) {
    if (items.some((item) => item.id === id)) continue;
    line.remove();
    lines.delete(id);
  }
  for (const item of items) {
    const line = lines.get(item.id) ?? makeLine(number, item.id);
    lines.set(item.id, line);
    const [done, text] = line.querySelectorAll("input");
    done.checked = item.complete;
    done.ariaLabel = `${item.text} is done`;
    line.classList.toggle("done", item.complete);
    if (document.activeElement !== text) text.value = item.text;
    text.dataset.stored = item.text;
  }
  const wanted = items.map((item) => lines.get(item.id));
  wanted.forEach((line, place) => {
    if (root.children[place] !== line) root.insertBefore(line, root.children[place] ?? null);
  });
}

function makeLine(number, id) {
  const text = make("input", { ariaLabel: "Text of the item", maxLength: 200 });
  const rename = () => {
    if (text.value !== text.dataset.stored && text.value.trim()) act(number, "rename", { id, text: text.value });
    else text.value = text.dataset.stored;
  };
  text.addEventListener("change", rename);
  text.addEventListener("keydown", (event) => { if (event.key === "Enter") text.blur(); });
  return make("li", {},
    make("input", { type: "checkbox", onchange: (event) => act(number, "complete", { id, isOn: event.target.checked }) }),
    text,
    make("button", { type: "button", textContent: "Delete", onclick: () => act(number, "delete", { id }) }));
}

// MARK: - The server and updates

function showRows(rows) {
  document.querySelector("#server tbody").replaceChildren(...rows.map((row) => make("tr",
    { className: row.deleted ? "deleted" : "" },
    make("td", { textContent: row.text }),
    make("td", { textContent: row.complete ? "yes" : "no" }),
    make("td", { textContent: String(row.version).slice(0, 10) }))));
}

async function look() {
  const link = document.getElementById("link");
  try {
    const answer = await fetch("/api/demo/state");
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    link.textContent = "connected";
    if (text === shown) return;
    shown = text;
    const state = JSON.parse(text);
    state.phones.forEach((phone, number) => showPhone(columns[number], phone));
    showRows(state.rows.items ?? state.rows);
  } catch (error) {
    link.textContent = "the demo has ended";
    console.error(error);
  }
}

async function watch() {
  await look();
  setTimeout(watch, pause);
}

watch();
