// Transcript: the recorded calls of the original Node server (azure-mobile-apps 4.0.3, SQLite), and JSON bodies made
// comparable.
//
// Tests/Fixtures/node-calls.txt has one line each: `#` number and title, `>` request line and headers, `<` status and
// headers, `=` the body of the request or response before it. Omitted: `ZUMO-API-VERSION: 2.0.0`, which every request
// has unless noted otherwise, `Content-Type: application/json`, caching headers, weak tags, tokens, and bodies that are
// not JSON or were recorded in part.

import Foundation
import ServerTestSupport
import TidelineCore
import TidelineTestKit

struct RecordedCall: Sendable {
    var number = 0
    var title = ""
    var method = ""
    var target = ""
    var headers: [(name: String, value: String)] = []
    var body: String?
    var status = 0
    var answerHeaders: [String: String] = [:]
    var answerBody: String?

    var table: String { String(target.split { $0 == "/" || $0 == "?" }.dropFirst().first ?? "") }

    /// The id in the path.
    var id: String? {
        let path = target.split(separator: "?")[0].split(separator: "/")
        return path.count > 2 ? path[2].removingPercentEncoding : nil
    }

    static let all = Result { read(try ProjectFile.text("Tests/Fixtures/node-calls.txt")) }

    private static func read(_ text: String) -> [RecordedCall] {
        var calls: [RecordedCall] = []
        for line in text.split(separator: "\n") {
            let rest = String(line.dropFirst(2))
            switch line.first {
            case "#":
                let parts = rest.split(separator: " ", maxSplits: 1)
                calls.append(
                    RecordedCall(number: Int(parts[0]) ?? 0, title: String(parts[1]))
                )
            case ">": calls[calls.count - 1].request(rest)
            case "<": calls[calls.count - 1].answer(rest)
            default:
                if calls[calls.count - 1].status == 0 {
                    calls[calls.count - 1].body = rest
                } else {
                    calls[calls.count - 1].answerBody = rest
                }
            }
        }
        return calls
    }

    private mutating func request(_ line: String) {
        if method.isEmpty {
            let parts = line.split(separator: " ", maxSplits: 1)
            method = String(parts[0])
            target = String(parts[1])
        } else {
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let value = parts[1].trimmingCharacters(in: .whitespaces)
            headers.append((String(parts[0]), value))
        }
    }

    private mutating func answer(_ line: String) {
        guard status > 0 else {
            status = Int(line) ?? 0
            return
        }
        let parts = line.split(separator: ":", maxSplits: 1)
        answerHeaders[String(parts[0])] = parts[1].trimmingCharacters(in: .whitespaces)
    }
}

/// JSON whose values that differ from run to run are replaced by their type.
enum ComparableJSON {
    static func text(_ body: String, ignoring names: Set<String> = []) -> String {
        guard let value = try? JSONSerialization.jsonObject(with: Data(body.utf8)) else {
            return body
        }
        return text(value, name: "", names)
    }

    private static func text(_ value: Any, name: String, _ ignored: Set<String>) -> String {
        switch value {
        case let object as [String: Any]:
            let members = object.keys.filter { !ignored.contains($0) }.sorted().map {
                "\($0)=" + text(object[$0] ?? NSNull(), name: $0, ignored)
            }
            return "{" + members.joined(separator: ",") + "}"
        case let array as [Any]:
            return "[" + array.map { text($0, name: "", ignored) }.joined(separator: ",") + "]"
        case let text as String: return form(text, name: name)
        case let number as NSNumber:
            return kind(number) + "\(number)"
        default: return "null"
        }
    }

    private static func kind(_ number: NSNumber) -> String {
        String(cString: number.objCType) == "c" ? "bool " : "number "
    }

    private static func form(_ text: String, name: String) -> String {
        switch name {
        case "createdAt", "updatedAt":
            return text.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) == nil
                ? "'\(text)'" : "(a time)"
        case "version": return Data(base64Encoded: text) == nil ? "'\(text)'" : "(a version)"
        case "error": return text.isEmpty ? "''" : "(a message)"
        default: return "'\(text)'"
        }
    }
}
