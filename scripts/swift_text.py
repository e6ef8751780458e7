"""swift_text: the comments and the string literals of Swift text, for scripts/plain-words and scripts/messages.

Like CodeScanner in Tests/RepositoryTests, it treats regex literals as code; a quote in one hides at most the rest of
its line.
"""
import collections
import re

# A comment without its slashes, one for each line of the file.
Comment = collections.namedtuple("Comment", "line text")

# String literals that `+` joins, as one text, with `\(…)` for each interpolation and for each other operand. `code` is
# the code in front of it, without comments and with empty string literals. `contents` has the line of each line of
# `text`.
Literal = collections.namedtuple("Literal", "line text code contents")

INTERPOLATION = "\\(…)"
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", '"': '"', "'": "'", "\\": "\\"}
INTERESTING = re.compile(r'//|/\*|#*"|[()]')
OPERATOR = re.compile(r"\s*\+(?![=+])")
SPACE = re.compile(r"(?:\s|//[^\n]*)*")
# An operand such as `name` or `list.joined(separator: "")`, up to the next `+`.
OPERAND = re.compile(r"[\w.?!]+(?:\((?:[^()]|\([^()]*\))*\))?")


class Scanner:
    def __init__(self, text):
        self.text, self.position = text, 0
        self.code, self.comments, self.literals = [], [], []

    def line(self, position):
        return self.text.count("\n", 0, position) + 1

    def scan_code(self):
        """Scans to the end of the text, or past a closing parenthesis that was not opened here."""
        depth = 0
        while match := INTERESTING.search(self.text, self.position):
            self.code.append(self.text[self.position : match.start()])
            self.position, found = match.end(), match.group()
            if found == "//":
                end = self.text.find("\n", self.position)
                end = len(self.text) if end < 0 else end
                comment = self.text[self.position : end].lstrip("/")
                self.comments.append(Comment(self.line(match.start()), comment.strip()))
                self.position = end
            elif found == "/*":
                end = self.text.find("*/", self.position)
                end = len(self.text) if end < 0 else end
                for number, line in enumerate(self.text[self.position : end].split("\n"), self.line(match.start())):
                    self.comments.append(Comment(number, line.strip(" *")))
                self.position = end + 2
            elif found == "(":
                depth += 1
                self.code.append(found)
            elif found == ")":
                if depth == 0:
                    return
                depth -= 1
                self.code.append(found)
            else:
                self.scan_literals(len(found) - 1)
        self.code.append(self.text[self.position :])
        self.position = len(self.text)

    def scan_literals(self, hashes):
        """Scans string literals that `+` joins; the first quote was just read."""
        first, code = self.position, "".join(self.code)[-400:]
        text, lines = [], []

        def add(characters, line):
            text.append(characters)
            lines.extend([line] * len(characters))

        for characters, line in self.scan_string(hashes):
            add(characters, line)
        while operator := OPERATOR.match(self.text, self.position):
            start = SPACE.match(self.text, operator.end()).end()
            quote = re.compile(r'#*"').match(self.text, start)
            if quote:
                self.position = quote.end()
                for characters, line in self.scan_string(len(quote.group()) - 1):
                    add(characters, line)
                continue
            operand = OPERAND.match(self.text, start)
            if not operand or not OPERATOR.match(self.text, operand.end()) or '"' in operand.group():
                break
            add(INTERPOLATION, self.line(start))
            self.position = operand.end()
        self.code.append('""')
        whole, contents, offset = "".join(text), [], 0
        for part in whole.split("\n"):
            contents.append((lines[offset] if offset < len(lines) else self.line(self.position), part))
            offset += len(part) + 1
        self.literals.append(Literal(self.line(first), whole, code, contents))

    def scan_string(self, hashes):
        """Scans one string literal; returns its characters, each with the number of its line."""
        marks, start = "#" * hashes, self.position
        block = re.compile(r'"" *\n').match(self.text, self.position)
        end = ('"""' if block else '"') + marks
        self.position = block.end() if block else self.position
        found, number = [], self.line(self.position)
        while self.position < len(self.text):
            character = self.text[self.position]
            if self.text.startswith(end, self.position):
                self.position += len(end)
                break
            if self.text.startswith("\\" + marks, self.position):
                self.position += 1 + hashes
                escape = self.text[self.position : self.position + 1]
                self.position += 1
                if escape == "(":
                    outer, self.code = self.code, [" "]
                    self.scan_code()
                    self.code = outer
                    found += [(INTERPOLATION, number)]
                elif escape == "\n":
                    # The next line continues this one, without its indentation.
                    number += 1
                    self.position += len(re.compile(r" *").match(self.text, self.position).group())
                elif escape == "u":
                    code = re.compile(r"\{([0-9A-Fa-f]+)\}").match(self.text, self.position)
                    found += [(chr(int(code.group(1), 16)), number)] if code else []
                    self.position = code.end() if code else self.position
                else:
                    found += [(ESCAPES.get(escape, escape), number)]
                continue
            if character == "\n" and not block:
                break
            found.append((character, number))
            number += character == "\n"
            self.position += 1
        return self.unindented(found) if block else found

    @staticmethod
    def unindented(found):
        """Removes the indentation of the closing quotes, and the line break in front of them."""
        indent = 0
        while found and found[-1][0] == " ":
            found.pop()
            indent += 1
        if found and found[-1][0] == "\n":
            found.pop()
        result, column = [], 0
        for character, number in found:
            if column >= indent or character != " ":
                result.append((character, number))
            column = 0 if character == "\n" else column + 1
        return result


def scan(text):
    """Returns the comments and the string literals of a Swift file, each in the order of their lines."""
    scanner = Scanner(text)
    while scanner.position < len(text):
        scanner.scan_code()
    return scanner.comments, sorted(scanner.literals, key=lambda literal: literal.line)
