// Terminal: functions that print lines, without control characters of rows and servers.

import Foundation

enum Terminal {
    /// Prints a line.
    static func say(_ line: String) { print(printable(line)) }

    /// Prints a line to the error output.
    static func warn(_ line: String) {
        FileHandle.standardError.write(Data("todo: \(printable(line))\n".utf8))
    }

    /// Returns the text after escaping the characters that a terminal interprets: control characters, line ends, and
    /// characters that change the writing direction.
    static func printable(_ text: String, keepingLines: Bool = false) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            if isHarmless(scalar) || keepingLines && scalar == "\n" {
                result.unicodeScalars.append(scalar)
            } else if scalar == "\n" {
                result += "\\n"
            } else if scalar == "\t" {
                result += "\\t"
            } else {
                result += "\\u{" + String(scalar.value, radix: 16) + "}"
            }
        }
        return result
    }

    private static func isHarmless(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: false
        default:
            !(0x202A...0x202E).contains(scalar.value) && !(0x2066...0x2069).contains(scalar.value)
        }
    }
}
