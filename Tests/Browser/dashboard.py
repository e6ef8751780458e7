"""What a person does on the dashboard, in Chromium, beside a device that writes to the same server.

    python3 Tests/Browser/dashboard.py BINARY [--pictures DIRECTORY]

Prints a line for each thing that was tried. Exits 0 when all went well, 1 when not, and 0 with the
reason when there is no browser (1 with --required).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import browser
from browser import DOWN, ENTER, ESCAPE, RIGHT, TAB, Browser

HOSTILE = [
    "<script>window.hit=1</script>",
    "<img src=x onerror=\"window.hit=1\">",
    "\"><svg onload=window.hit=1>",
    "javascript:window.hit=1",
    "'-window.hit=1-'",
    "${window.hit=1}{{window.hit=1}}",
    "</textarea><script>window.hit=1</script>",
    "=HYPERLINK(\"javascript:window.hit=1\")",
    "\u202etxet \u2028\u2029\u0001\ufeff\U0001f469\u200d\U0001f680",
    "a" * 100_000,
]

COLUMNS = {
    "text": "string",
    "complete": {"type": "boolean", "nullable": False, "default": False},
    "priority": "integer",
    "price": "decimal",
    "due": "dateTime",
    "rating": {"enum": ["Low", "Mid", "High"]},
    "details": "json",
}


class Server:
    """A server of the tests' own, in a directory of its own."""

    def __init__(self, binary, **configuration):
        self.directory = tempfile.TemporaryDirectory(prefix="tideline-page-")
        folder = self.directory.name
        with open(f"{folder}/jwt.key", "w") as file:
            file.write("0123456789abcdef0123456789abcdef")
        self.file = f"{folder}/tideline.json"
        with open(self.file, "w") as file:
            json.dump({"listen": "127.0.0.1:0", "database": f"sqlite:{folder}/t.db", **configuration}, file)
        self.binary = binary
        self.process = subprocess.Popen(
            [binary, "serve", "--config", self.file], stdout=subprocess.PIPE, text=True
        )
        self.url = self.process.stdout.readline().split()[-1]

    def token(self, subject):
        words = [self.binary, "token", "--config", self.file, "--subject", subject]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    def send(self, method, path, body=None, **headers):
        """What a device would: the public routes."""
        data = None if body is None else json.dumps(body).encode()
        fields = {"Content-Type": "application/json"} if data else {}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data, fields, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, None

    def row(self, table, key):
        return self.send("GET", f"/tables/{table}/{key}?__includeDeleted=true")[1]

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.directory.cleanup()


def check(what, is_so, more=""):
    print(f"{'ok  ' if is_so else 'FAIL'} {what}{f' ({more})' if more else ''}", flush=True)
    if not is_so:
        raise AssertionError(what)


CELL = """
const line = [...document.querySelectorAll('.rows tbody tr')].find((line) => line.rowID === arguments[0]);
const place = [...document.querySelectorAll('.rows thead th')].findIndex((head) =>
  head.firstChild.textContent.replace(/ [▲▼]$/, '') === arguments[1]);
"""


def cell(page, key, column):
    return page.run(CELL + "return line?.cells[place]?.textContent ?? null", key, column)


def focus(page, key, column):
    page.wait(f"{column} of {key}", CELL + "line?.cells[place]?.focus(); return !!line", key, column)


def a_persons_path(page, server, pictures):
    page.open(server.url)
    page.find(".note", "There are no rows.")
    page.wait("the line of events", "return document.getElementById('live').textContent === 'live'")
    page.click("nav a[href='#/table/TodoItem']")
    page.find("h2", "TodoItem")
    check("first run: the page is there, without rows, and live", True)

    # The first row, by keyboard and mouse.
    page.click("#new")
    page.type("dialog input[aria-label=id]", "milk")
    page.type("dialog [aria-label=text]", "Buy milk")
    page.type("dialog [aria-label=priority]", "9007199254740993")
    page.type("dialog [aria-label=details]", '{"shop": ["corner", 1.50]}')
    page.click("dialog #save")
    page.wait("the row", CELL + "return !!line", "milk", "text")
    row = server.row("TodoItem", "milk")
    check("a row is added, with all digits", row["text"] == "Buy milk" and row["priority"] == 9007199254740993)

    # A device changes it while the page looks.
    status, _ = server.send("PATCH", "/tables/TodoItem/milk", {"text": "Buy oat milk"})
    page.wait("the change", CELL + "return line?.cells[place]?.textContent === 'Buy oat milk' && line.className.includes('flash')", "milk", "text")
    check("a device's change is shown and flashes", status == 200)

    # Edit in place: Enter, type, Enter.
    focus(page, "milk", "text")
    page.keys(ENTER)
    page.find(".rows td input")
    page.keys("Buy soy milk", ENTER)
    page.wait("the edit", CELL + "return line?.cells[place]?.textContent === 'Buy soy milk'", "milk", "text")
    check("a cell is edited in place", server.row("TodoItem", "milk")["text"] == "Buy soy milk")
    page.keys(RIGHT)
    check("arrow keys move on", page.run("return document.activeElement.tagName === 'TD' && document.activeElement.textContent") == "false")
    page.keys(ENTER, ESCAPE)
    check("Escape leaves all as it was", server.row("TodoItem", "milk")["complete"] is False)
    focus(page, "milk", "priority")
    page.keys(ENTER)
    page.find(".rows td input")
    page.keys("12abc", ENTER)
    page.keys(TAB)
    check("what is no value stays to be mended", page.run("return document.querySelector('.rows td input')?.value") == "12abc")
    page.keys(ESCAPE)

    # A conflict: while the person types, a device writes two columns, one of them the same.
    page.click("button[aria-label='Open row milk']")
    page.type("dialog [aria-label=text]", "Mine")
    page.type("dialog [aria-label=price]", "1.10")
    status, _ = server.send("PATCH", "/tables/TodoItem/milk", {"text": "Theirs", "rating": "High"})
    page.click("dialog #save")
    page.find("#conflict")
    shown = page.run("return document.getElementById('conflict').innerText")
    check("a conflict shows base, mine and theirs", all(one in shown for one in ["Buy soy milk", "Mine", "Theirs", "1.10", "High"]))
    check("only what changed on both sides is asked for", page.run(
        "return [...document.querySelectorAll('#conflict tbody tr')].filter((line) => !line.querySelector('input:checked')).map((line) => line.cells[0].firstChild.textContent).join()") == "text")
    if pictures:
        page.picture(f"{pictures}/conflict.png")
    page.click("#settle")
    page.find("dialog .problem")
    page.click("input[name=pick-text][value=mine]")
    page.click("#settle")
    page.wait("the settled row", CELL + "return line?.cells[place]?.textContent === 'Mine'", "milk", "text")
    row = server.row("TodoItem", "milk")
    check("the conflict is settled column by column", (row["text"], row["price"], row["rating"]) == ("Mine", 1.1, "High"))

    # A conflict that is left by Escape leaves the row as it is, and the page at work.
    focus(page, "milk", "text")
    page.keys(ENTER)
    page.find(".rows td input")
    page.keys("Given up")
    server.send("PATCH", "/tables/TodoItem/milk", {"text": "Device"})
    page.keys(ENTER)
    page.find("#conflict")
    page.keys(ESCAPE)
    page.wait("the device's row", CELL + "return line?.cells[place]?.textContent === 'Device'", "milk", "text")
    server.send("PATCH", "/tables/TodoItem/milk", {"text": "Device again"})
    page.wait("what comes then", CELL + "return line?.cells[place]?.textContent === 'Device again'", "milk", "text")
    check("a conflict that is left changes nothing, and the rows stay live", server.row("TodoItem", "milk")["text"] == "Device again")

    # In the form of a row what was typed stays, too.
    page.run("document.querySelector('[aria-label=\"Open row milk\"]').click()")
    page.find("dialog input[aria-label=text]")
    page.run("const input = document.querySelector('dialog input[aria-label=text]'); input.focus(); input.select();")
    page.keys("Typed at length")
    server.send("PATCH", "/tables/TodoItem/milk", {"text": "Device once more"})
    page.click("#save")
    page.find("#conflict")
    page.keys(ESCAPE)
    page.wait("the form behind the conflict", "return !document.getElementById('conflict')")
    check("a conflict that is left leaves the form with what was typed",
          page.run("return document.querySelector('dialog input[aria-label=text]')?.value") == "Typed at length"
          and server.row("TodoItem", "milk")["text"] == "Device once more")
    page.keys(ESCAPE)
    page.wait("no dialog", "return !document.querySelector('dialog')")

    # Rows that were asked for before an edit and come within it.
    page.run("""
        const real = window.fetch;
        window.held = [];
        window.fetch = async (...all) => {
          const answer = await real(...all);
          if (String(all[0]).includes('tables/TodoItem?')) await new Promise((go) => window.held.push(go));
          return answer;
        };
        window.release = () => { window.fetch = real; for (const go of window.held) go(); };
    """)
    server.send("PATCH", "/tables/TodoItem/milk", {"text": "On its way"})
    page.wait("the rows on their way", "return window.held.length > 0")
    focus(page, "milk", "text")
    page.keys(ENTER)
    page.find(".rows td input")
    page.keys("Typed")
    page.run("window.release()")
    time.sleep(0.5)
    check("an edit is not disturbed by rows that were on their way", page.run("return document.activeElement.value") == "Typed")
    page.keys(ESCAPE)
    page.wait("the rows behind it", CELL + "return line?.cells[place]?.textContent === 'On its way'", "milk", "text")

    # Deleted by the person, shown, brought back.
    page.click(".rows button", "Delete")
    page.find(".note", "There are no rows.")
    check("a row is deleted", server.row("TodoItem", "milk")["deleted"] is True)
    page.click("#deleted")
    page.click(".rows button", "Undelete")
    page.wait("the row that is back", CELL + "return line && !line.className.includes('gone')", "milk", "text")
    check("a deleted row is brought back", server.row("TodoItem", "milk")["deleted"] is False)

    # Deleted by a device while the person edits.
    page.click("button[aria-label='Open row milk']")
    page.type("dialog [aria-label=text]", "Still needed")
    server.send("DELETE", "/tables/TodoItem/milk")
    page.click("dialog #save")
    page.find("#conflict")
    page.click("#settle", "Undelete and save")
    page.wait("the row", CELL + "return line?.cells[place]?.textContent === 'Still needed'", "milk", "text")
    row = server.row("TodoItem", "milk")
    check("a row that a device deleted meanwhile can be kept", row["text"] == "Still needed" and not row["deleted"])


def filters_and_files(page, server, pictures):
    page.open(server.url + "/#/table/TodoItem")
    page.type("#filter", "tex")
    page.find("#proposals li")
    page.keys(TAB)
    check("a column is completed", page.run("return document.getElementById('filter').value") == "text ")
    page.type("#filter", "text eq 'é' and nosuch eq 1")
    page.keys(ENTER)
    mark = page.wait("the error", "return document.querySelector('#filter-error pre')?.textContent")
    text, caret = mark.split("\n")
    check("an error is shown at its place", text[caret.index("^"):].startswith("nosuch"), mark.replace("\n", " | "))
    page.type("#filter", "text eq 'Still needed'")
    page.keys(ENTER)
    page.wait("the match", "return document.getElementById('count').textContent === '1 row match'")
    check("a filter is applied, and in the address", "filter=text+eq" in page.run("return location.hash"))

    # Export and import through the page's own functions, as the dialogs use them.
    script = """
        const done = arguments[arguments.length - 1];
        return import('/$admin/page/files.js').then(({ readCSV, readRows }) => ({
          csv: readCSV('a,b,c\\r\\n"x ""y"", z",,""\\n"two\\nlines",1,\\n'),
          rows: readRows('id,text,complete,priority\\n1,"",true,9007199254740993\\n', true,
            { columns: [{ name: 'text', type: 'string' }, { name: 'complete', type: 'boolean' }, { name: 'priority', type: 'integer' }] })
            .map((row) => JSON.stringify(row)),
        }));
    """
    read = page.run(script)
    check("CSV keeps quotes, lines, null and the empty text",
          read["csv"] == [["a", "b", "c"], ['x "y", z', None, ""], ["two\nlines", "1", None]]
          and read["rows"] == ['{"id":"1","text":"","complete":true,"priority":9007199254740993}'], str(read))
    # Files that are not as they should be are refused whole.
    script = """
        return import('/$admin/page/files.js').then(({ readRows }) => {
          const told = (text, isCSV) => {
            try { return JSON.stringify(readRows(text, isCSV, { columns: [{ name: 'text', type: 'string' }] })); } catch (error) { return error.message; }
          };
          return [
            told('[{"text":"a"},null]', false), told('[1]', false), told('[[1]]', false), told('[{"Text":"a"}]', false),
            told('[{"id":"1"},{"id":"1"}]', false), told('id,text\\n1,a,b\\n', true), told('id,text\\n1\\n', true),
            told('id,text,text\\n1,a,b\\n', true), told('id,text\\n1,a\\n1,b\\n', true), told('id,\\n1,a\\n', true),
          ];
        });
    """
    words = ["Row 2: an object", "Row 1: an object", "Row 1: an object", "no column Text", "same id", "3 fields", "1 fields",
             "listed twice", "same id", "without a name"]
    told = page.run(script)
    check("files with faults are rejected with the line", all(word in text for word, text in zip(words, told)), str(told))
    page.run("""
        window.saved = [];
        const make = URL.createObjectURL;
        URL.createObjectURL = (blob) => { window.saved.push(blob); return make.call(URL, blob); };
    """)
    page.click("button", "Export")
    page.click("dialog button", "CSV")
    page.wait("the file", "return window.saved.length === 1")
    csv = page.run("return window.saved[0].text()")
    check("a view is exported as CSV", csv.startswith("id,text,") and "milk,Still needed,false,9007199254740993" in csv, csv.split("\r\n")[1][:60])
    page.keys(ESCAPE)
    page.click("button", "Import")
    page.run("""
        const list = new DataTransfer();
        list.items.add(new File(['id,text,deleted\\nmilk,over,false\\neggs,"Eggs, 6",\\ngone,Gone,true\\n'], 'rows.csv'));
        document.querySelector('dialog input[type=file]').files = list.files;
    """)
    page.run("""
        window.chosen = document.querySelector('dialog input[type=file]').files;
        const list = new DataTransfer();
        list.items.add(new File([new Uint8Array([...'id,text\\nlatin,K'].map((one) => one.charCodeAt(0)).concat(0xE4, 10))], 'latin.csv'));
        document.querySelector('dialog input[type=file]').files = list.files;
    """)
    page.click("dialog button", "Import")
    page.wait("the refusal", "return document.querySelector('dialog')?.innerText.includes('UTF-8')")
    check("a file in another encoding is refused", server.send("GET", "/tables/TodoItem/latin")[0] == 404)
    page.run("document.querySelector('dialog input[type=file]').files = window.chosen")
    page.click("dialog button", "Import")
    page.wait("the end", "return document.querySelector('dialog')?.innerText.includes('1 added, 0 changed, 2 skipped')")
    check("a file is imported; existing rows are skipped", server.row("TodoItem", "eggs")["text"] == "Eggs, 6"
          and server.row("TodoItem", "milk")["text"] == "Still needed")
    check("a row that is deleted in the file is not imported", server.send("GET", "/tables/TodoItem/gone")[0] == 404)
    page.keys(ESCAPE)


def hostile_texts(page, server, pictures):
    for place, text in enumerate(HOSTILE):
        status, _ = server.send("POST", "/tables/Hostile", {"id": f"h{place}", "a": text, "b": {"k": text, text[:50]: 1}})
        check(f"hostile text {place} is stored", status == 201) if status != 201 else None
    page.open(server.url + "/#/table/Hostile")
    page.wait("the rows", "return document.querySelectorAll('.rows tbody tr').length === arguments[0]", len(HOSTILE))
    for place in range(len(HOSTILE)):
        page.click(f"button[aria-label='Open row h{place}']")
        page.find("dialog")
        page.keys(ESCAPE)
        page.wait("no dialog", "return !document.querySelector('dialog')")
    page.open(server.url + "/#/table/Hostile?filter=" + urllib.parse.quote("a eq '<img src=x onerror=window.hit=1>'"))
    page.open(server.url + "/#/table/" + urllib.parse.quote("<img src=x onerror=window.hit=1>"))
    for address in ["__proto__", "toString", "table/%E0%A4%A", "table/__proto__"]:
        page.open(server.url + "/#/" + address)
        page.run("location.reload()")
        page.wait(f"a table at #/{address}", "return document.querySelector('#nav [aria-current=page]') && document.querySelector('#main .rows')")
    server.send("GET", "/tables/TodoItem", X_ZUMO_INSTALLATION_ID="<img/src=x/onerror=window.hit=1>", X_ZUMO_VERSION="<script>window.hit=1</script>")
    page.open(server.url + "/#/devices")
    page.wait("the device", "return document.getElementById('main').innerText.includes('onerror')")
    check("hostile texts in cells, forms, address and headers run no script",
          page.run("return window.hit === undefined && !document.querySelector('main img, main script, dialog script')"))
    refused = page.run("""
        try { document.body.innerHTML = '<b>x</b>'; return 'set'; } catch (error) { return error.name; }
    """)
    check("the policy forbids markup from texts", refused == "TypeError", refused)


def large_tables(page, server, pictures):
    rows = [f"r{number:06d}" for number in range(100_000)]
    for start in range(0, len(rows), 1000):
        requests = [{"id": key, "method": "POST", "url": "/tables/Big", "headers": {"Content-Type": "application/json"},
                     "body": {"id": key, "name": f"name {key}", "n": int(key[1:])}} for key in rows[start:start + 1000]]
        status, _ = server.send("POST", "/$batch", {"requests": requests})
        assert status == 200
    start = time.monotonic()
    page.open(server.url + "/#/table/Big")
    page.wait("the rows", "return document.getElementById('count').textContent === '100,000 rows'")
    first = time.monotonic() - start
    start = time.monotonic()
    page.click("#next")
    page.wait("the second page", "return document.getElementById('count').textContent.startsWith('page 2')")
    check("100,000 rows: first and second page", cell(page, "r000100", "n") == "100",
          f"{first * 1000:.0f} ms, {(time.monotonic() - start) * 1000:.0f} ms")
    page.click(".rows thead button", "n")
    page.wait("the order", "return document.querySelector('.rows thead th[aria-sort=ascending]')")
    page.click(".rows thead button", "n ▲")
    page.wait("the other order", CELL + "return !!line", "r099999", "n")
    check("a column sorts both ways", True)


def looks(page, server, pictures):
    page.open(server.url + "/#/table/TodoItem")
    page.wait("a row", CELL + "return !!line", "milk", "text")
    timing = page.run("""
        const paint = performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0;
        const all = performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'));
        return [paint, all.filter(({ name }) => !name.startsWith(location.origin)).length];
    """)
    check("nothing comes from elsewhere", timing[1] == 0)
    files = ["/"] + page.run("return [...document.querySelectorAll('link[href^=\"/\"], script[src]')].map((one) => one.getAttribute('href') ?? one.getAttribute('src'))")
    size = sum(len(urllib.request.urlopen(server.url + file, timeout=30).read()) for file in files)
    check("the page is under 150 KB", len(files) > 8 and 50_000 < size < 150_000, f"{size} bytes in {len(files)} files")
    print(f"     first paint {timing[0]:.0f} ms", flush=True)
    unnamed = page.run("""
        return [...document.querySelectorAll('button, input, select, textarea, a')].filter((one) =>
          !(one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.length)).map((one) => one.outerHTML);
    """)
    check("every control has a name", unnamed == [], str(unnamed))
    page.size(390, 800)
    wide = page.run("return document.documentElement.scrollWidth <= innerWidth")
    check("on a narrow screen nothing runs over", wide)
    if pictures:
        page.picture(f"{pictures}/narrow.png")
    page.size(1200, 700)
    page.dark(True)
    lights = page.run("""
        const light = (name) => getComputedStyle(document.documentElement)[name].match(/\\d+/g).reduce((sum, one) => sum + Number(one), 0);
        return [light('color'), light('backgroundColor')];
    """)
    check("in dark mode the text is light", lights[0] > lights[1] + 300, str(lights))
    if pictures:
        page.picture(f"{pictures}/dark.png")
    page.dark(False)
    if pictures:
        page.picture(f"{pictures}/rows.png")
        page.open(server.url + "/#/activity")
        time.sleep(7)
        page.picture(f"{pictures}/activity.png")
        page.open(server.url + "/#/settings")
        page.click("#plan")
        page.find("p", "Nothing to do: the tables match the configuration.")
        page.picture(f"{pictures}/settings.png")


def hidden_tabs(page, server, pictures):
    """A browser without a screen hides no tab: the page is told that it is hidden."""
    def wait(count):
        end = time.monotonic() + browser.SECONDS
        while server.send("GET", "/$admin/overview")[1]["traffic"]["listeners"] != count:
            assert time.monotonic() < end, f"there are not {count} listeners"
            time.sleep(0.1)

    def hide(is_hidden):
        page.run("""
            Object.defineProperty(document, 'hidden', { value: arguments[0], configurable: true });
            document.dispatchEvent(new Event('visibilitychange'));
        """, is_hidden)

    page.open(server.url + "/#/table/TodoItem")
    wait(1)
    hide(True)
    wait(0)
    server.send("PATCH", "/tables/TodoItem/milk", {"text": "While away"})
    hide(False)
    page.wait("the row", CELL + "return line?.cells[place]?.textContent === 'While away'", "milk", "text")
    wait(1)
    check("a tab that nobody sees does not listen, and catches up", True)


def rights(binary):
    users = {"authentication": {"secretFile": "jwt.key", "operators": ["olga"]}}
    server = Server(binary, tables={"Note": {"columns": {"text": "string"}, "owner": "userId",
                                             "permissions": {"update": "disabled"}}}, **users)
    page = Browser()
    try:
        anna = {"X_ZUMO_AUTH": server.token("anna")}
        server.send("POST", "/tables/Note", {"id": "n", "text": "hers"}, **anna)
        page.open(server.url)
        page.find("#token")
        check("a caller without a token sees no table", "Note" not in page.text())
        page.type("#token", server.token("anna"))
        page.keys(ENTER)
        page.find(".problem")
        check("a user who is no operator is refused", "authentication.operators" in page.find_text(".problem") and "Note" not in page.text())
        page.type("#token", server.token("olga"))
        page.keys(ENTER)
        page.wait("the row", CELL + "return !!line", "n", "text")
        check("an operator sees the rows of all", cell(page, "n", "userId") == "anna")
        focus(page, "n", "userId")
        page.keys(ENTER)
        page.find("dialog input[aria-label=userId]")
        check("the owner cannot change", page.run("return document.querySelector('dialog input[aria-label=userId]').disabled"))
        page.keys(ESCAPE)
        page.wait("no dialog", "return !document.querySelector('dialog')")
        kept = page.run("return [localStorage.length, document.cookie, sessionStorage.length]")
        check("the token is kept in this tab only", kept == [0, "", 1])
        page.click("#signout")
        page.find("#token")
        check("signed out, nothing is left", page.run("return sessionStorage.length") == 0 and "hers" not in page.text())
    finally:
        page.close()
        server.close()
    server = Server(binary, tables={"Note": {"columns": {"text": "string"}}}, dashboard={"mode": "readOnly"}, dynamicSchema=True)
    page = Browser()
    try:
        server.send("POST", "/tables/Note", {"id": "n", "text": "seen"})
        page.open(server.url)
        page.wait("the row", CELL + "return !!line", "n", "text")
        check("read only: nothing to write with", "read only" in page.text() and not page.run(
            "return [...document.querySelectorAll('button')].some((one) => ['New row', 'Import', 'Delete'].includes(one.textContent))"))
        server.send("POST", "/tables/Fresh", {"text": "new"})
        page.click("nav a", "Devices")
        page.wait("the new table", "return document.getElementById('nav').innerText.includes('Fresh')")
        check("a table that came meanwhile is listed", True)
    finally:
        page.close()
        server.close()


def main():
    words = argparse.ArgumentParser()
    words.add_argument("binary")
    words.add_argument("--pictures")
    words.add_argument("--required", action="store_true")
    words = words.parse_args()
    reason = browser.missing()
    if reason:
        print(f"skipped: {reason}")
        return 1 if words.required else 0
    binary = os.path.abspath(words.binary)
    server = Server(binary, tables={
        "TodoItem": {"columns": COLUMNS},
        "Big": {"columns": {"name": "string", "n": "integer"}, "indexes": [["n"]]},
        "Hostile": {"columns": {"a": "string", "b": "json"}},
    }, limits={"eventsHeartbeat": 1})
    page = Browser()
    try:
        for part in [a_persons_path, filters_and_files, hostile_texts, hidden_tabs, large_tables, looks]:
            part(page, server, words.pictures)
        wrong = [line for line in page.errors() if "Content Security Policy" in line or "Uncaught" in line]
        check("the console tells of no failure", [line for line in wrong if "document.body.innerHTML" not in line
              and "TrustedHTML" not in line] == [], str(wrong))
        rights(binary)
    except (AssertionError, browser.BrowserError) as error:
        print(f"FAIL {error}")
        page.picture("/tmp/tideline-page-failure.png")
        print("picture: /tmp/tideline-page-failure.png")
        return 1
    finally:
        page.close()
        server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
