// TypeSizeTests: a type has at most 40 methods in at most three files of its module.
//
// The count includes methods, initializers and subscripts that other files can call. It excludes static members, such
// as errors and other constants, because they belong to the feature that uses them.

import Foundation
import Testing

@Suite struct TypeSizeTests {
    private static let methodsMax = 40
    private static let filesMax = 3

    /// The types that are larger, each with its numbers of files and methods, and the reason.
    ///
    /// The numbers must not grow.
    private static let exceptions: [String: (files: Int, methods: Int, reason: String)] = [
        "Tideline.RecordReading": (2, 44, "Reads with a query, a closure or a predicate."),
        "Tideline.SQLiteStore": (6, 23, "Optional requirements of LocalStore, by group."),
        "Tideline.RemoteService": (6, 16, "Requests, next to the feature that sends them."),
        "Tideline.Column": (5, 40, "Operators and functions of queries, by kind."),
        "Tideline.SyncContext": (5, 25, "The public API of a context, next to its feature."),
        "Tideline.SyncReader": (4, 12, "The public API of a reader, next to its feature."),
        "Tideline.SyncTable": (5, 82, "The public API of a table, by verb."),
        "TidelineCommand.Doctor": (4, 8, "The checks of the doctor, by subject."),
        "TidelineCore.QueryExpression": (4, 8, "The meanings of an expression, by kind."),
        "TidelineCore.FilterRenderer": (4, 36, "The functions of SQL, by kind."),
        "TidelineHTTP.HTTPWorker": (5, 34, "Work on a connection, by phase, on one loop."),
        "TidelineServer.ServerConfiguration": (9, 24, "Keys of the configuration, by section."),
        "TidelineServerCore.RequestHandler": (4, 10, "Routes of batches and the dashboard."),
        "TidelineServerCore.ServerResponse": (4, 4, "Responses, next to their feature."),
        "TidelineServerPostgres.PostgresMaintenance": (5, 13, "Maintenance commands, by command."),
        "TidelineServerPostgres.PostgresWriteTransaction": (4, 42, "Reads, locks, references."),
        "TidelineTestKit.TableStoreConformance": (4, 5, "The checks of stores, by subject."),
    ]

    private struct Size: Hashable {
        var files: Set<String> = []
        var methods = 0
        var isDeclared = false
    }

    @Test("Types do not exceed their maximum size, and listed exceptions are current")
    func typesAreSmall() throws {
        let sizes = Self.sizes(try Repository.swiftFiles().filter { $0.isIn("Sources") })
        expectNone(Self.tooLarge(sizes, Self.exceptions.mapValues { ($0.files, $0.methods) }))
        for (name, exception) in Self.exceptions {
            let size = sizes[name, default: Size()]
            let isExact = (size.files.count, size.methods) == (exception.files, exception.methods)
            #expect(isExact, "\(name): list \(size.files.count) files, \(size.methods) methods")
            #expect(!exception.reason.isEmpty)
        }
    }

    @Test("The size rule finds types with too many methods or extension files")
    func theRuleCanFail() {
        let type = SourceFile(path: "Sources/A/T.swift", text: "struct T {\n}\n")
        let parts = (0..<3).map { number in
            SourceFile(
                path: "Sources/A/T+\(number).swift",
                text: "extension T {\n    func a() {\n        func b() {}\n    }\n}\n"
            )
        }
        let sizes = Self.sizes([type] + parts)
        #expect(sizes["A.T"]?.methods == 3)
        #expect(Self.tooLarge(sizes, [:]).count == 1)
        #expect(Self.tooLarge(sizes, ["A.T": (4, 3)]).isEmpty)
        // A listed type with one more method, or in one more file.
        #expect(Self.tooLarge(sizes, ["A.T": (4, 2)]).map(\.path) == ["A.T"])
        #expect(Self.tooLarge(sizes, ["A.T": (3, 3)]).map(\.path) == ["A.T"])
        #expect(Self.tooLarge(Self.sizes([type] + parts.dropLast()), [:]).isEmpty)
        let methods = (0...Self.methodsMax).map { "    func f\($0)() {}\n" }.joined()
        let long = SourceFile(path: "Sources/A/U.swift", text: "struct U {\n\(methods)}\n")
        #expect(Self.tooLarge(Self.sizes([long]), [:]).count == 1)
        // An extension in another module does not count.
        #expect(Self.tooLarge(Self.sizes(parts + [long]), ["A.U": (1, 41)]).isEmpty)
    }

    private static func tooLarge(
        _ sizes: [String: Size],
        _ allowed: [String: (files: Int, methods: Int)]
    ) -> [Finding] {
        sizes.sorted { $0.key < $1.key }.compactMap { name, size in
            let max = allowed[name] ?? (filesMax, methodsMax)
            guard size.isDeclared, size.files.count > max.files || size.methods > max.methods
            else { return nil }
            return Finding(
                path: name,
                message: "\(size.methods) methods in \(size.files.count) files; at most "
                    + "\(max.methods) in \(max.files). Make two types of it."
            )
        }
    }

    /// Returns the sizes of the types of these files, by module and name.
    private static func sizes(_ files: [SourceFile]) -> [String: Size] {
        var sizes: [String: Size] = [:]
        for file in files {
            let module = file.path.split(separator: "/")[1]
            var current: String?
            for line in file.code {
                if let declaration = declaration(line) {
                    let name = "\(module).\(declaration.name)"
                    current = line.hasSuffix("}") ? nil : name
                    guard !declaration.isExtension else { continue }
                    sizes[name, default: Size()].isDeclared = true
                    sizes[name, default: Size()].files.insert(file.path)
                } else if line.hasPrefix("}") {
                    current = nil
                } else if let current, isMethod(line) {
                    sizes[current, default: Size()].methods += 1
                    sizes[current, default: Size()].files.insert(file.path)
                }
            }
        }
        return sizes
    }

    private static func declaration(_ line: Substring) -> (name: String, isExtension: Bool)? {
        guard let first = line.first, first.isLetter || first == "@" else { return nil }
        var words = line.split { !$0.isLetter && !$0.isNumber && $0 != "_" && $0 != "@" }[...]
        let kinds: Set<Substring> = ["class", "struct", "enum", "actor", "protocol", "extension"]
        while let word = words.popFirst() {
            guard kinds.contains(word) else { continue }
            guard let name = words.first, name.first?.isUppercase == true else { return nil }
            return (String(name), word == "extension")
        }
        return nil
    }

    /// Whether a line declares a method of the enclosing type that other files can call.
    private static func isMethod(_ line: Substring) -> Bool {
        guard line.hasPrefix("    "), line.dropFirst(4).first?.isLetter == true else {
            return false
        }
        let words = line.split { !$0.isLetter && $0 != "_" }
        guard let place = words.firstIndex(where: { ["func", "init", "subscript"].contains($0) })
        else { return false }
        let allowed: Set<Substring> = [
            "public", "package", "mutating", "nonmutating", "override", "final", "convenience",
            "required", "isolated", "nonisolated", "consuming", "borrowing", "set",
        ]
        return words[..<place].allSatisfy(allowed.contains)
    }
}
