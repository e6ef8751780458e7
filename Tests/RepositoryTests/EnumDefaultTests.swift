// EnumDefaultTests: a switch over an enum of the project has no default, so that the compiler names the places that a
// new case has to change.

import Testing

struct EnumDefaultTests {
    /// The number of defaults in switches with a pattern such as `.name`, by reason and file.
    ///
    /// All other switches name each case. Over two enums, `(.name, _)` does so for the one that decides.
    static let allowed: [String: [String: Int]] = [
        "The enum is one of the system or the standard library, or the value has any type.": [
            "Examples/Todo/Terminal.swift": 1,
            "Sources/Tideline/Query/ColumnArithmetic.swift": 1,
            "Sources/Tideline/Query/Literal.swift": 1,
            "Sources/Tideline/Transport/URLSession/URLSessionTransport.swift": 2,
            "Sources/TidelineCore/Query/Patterns/SearchText.swift": 1,
            "Sources/TidelineServerCore/Access/Authenticator.swift": 1,
            "Sources/TidelineServerCore/Tables/Report.swift": 1,
            "Sources/TidelineServerCore/Traffic/ServerLog.swift": 1,
        ],
        "The codes are constants of a struct, to which more may be added.": [
            "Examples/Todo/Todo.swift": 1,
            "Sources/Tideline/Sync/Pull/PullSteps.swift": 1,
            "Sources/Tideline/Sync/Push/PushErrors.swift": 1,
        ],
        "Some pairs are special; any other pair follows a rule that is right for all.": [
            "Sources/Tideline/Query/PredicateWalk.swift": 1,
            "Sources/Tideline/Store/Search/OrderedSelect.swift": 1,
            "Sources/Tideline/Sync/Conflict/RowMerge.swift": 1,
            "Sources/TidelineCore/Model/JSONMembers.swift": 1,
            "Sources/TidelineCore/Query/Checking/FilterCheckerComparisons.swift": 1,
            "Sources/TidelineCore/Query/Scalars/ScalarNumbers.swift": 1,
            "Sources/TidelineCore/Rules/TableRules.swift": 2,
            "Sources/TidelineCore/SQL/FilterRendererComparisons.swift": 2,
            "Sources/TidelineCore/Schema/SchemaDifference.swift": 1,
            "Sources/TidelineServerCore/Writes/ThreeWayMerge+Columns.swift": 1,
        ],
        "A string decides, and a token is of the kind that it asks for or not.": [
            "Sources/TidelineServerCore/Rows/RowBody.swift": 1
        ],
    ]

    @Test("Switches over enums of the project have no default")
    func enumsHaveNoDefault() throws {
        let files = try Repository.swiftFiles().filter { $0.isIn("Sources", "Examples") }
        var allowed: [String: Int] = [:]
        for group in Self.allowed.values { allowed.merge(group, uniquingKeysWith: +) }
        expectNone(enumDefaults(in: files, allowed: allowed))
    }

    @Test(
        "The default rule finds switches over enums with a default",
        arguments: [
            ("switch a {\ncase .b: 1\ndefault: 0\n}", 1),
            ("switch a {\ncase .b(let c) where c > 0: 1\ndefault:\n    break\n}", 1),
            ("    return switch (a, b) {\n    case (_, .b): 1\n    default: 0\n    }", 1),
            ("switch a {\ncase .b?: 1\ncase nil: 0\n@unknown default: 2\n}", 0),
            ("switch a {\ncase .b: 1\ncase .c: 0\n}", 0),
            ("switch a {\ncase 1: self = .b\ndefault: self = .c\n}", 0),
            ("switch a {\ncase \".b\", UInt8(ascii: \".\"): 1\ncase ...5: 2\ndefault: 0\n}", 0),
            ("switch a {\ncase let b where b == .c: 1\ndefault: 0\n}", 0),
            ("switch a {\ncase .b:\n    switch c {\n    case 1: 1\n    default: 0\n    }\n}", 0),
            ("switch a {\ncase 1:\n    switch c {\n    case .b: 1\n    default: 0\n    }\n}", 1),
            ("switch a {\ncase .b: 1\n}\nswitch c {\ncase 1: 1\ndefault: 0\n}", 0),
            ("switch a {\ncase .b: 1\n// default: 0\n}", 0),
            ("let a = b(\n    c,\n    default: .d\n)", 0),
        ]
    )
    func defaultRuleCanFail(text: String, count: Int) {
        let file = SourceFile(path: "Sources/A.swift", text: text)
        #expect(enumDefaultLines(file).count == count)
        #expect(enumDefaults(in: [file], allowed: [:]).count == count)
    }

    @Test("The allowed number of defaults is exact for each file")
    func allowedNumberIsExact() {
        let text = "switch a {\ncase .b: 1\ndefault: 0\n}"
        let files = ["A", "B"].map { SourceFile(path: $0 + ".swift", text: text) }
        #expect(enumDefaults(in: files, allowed: ["A.swift": 1]).map(\.path) == ["B.swift"])
        #expect(enumDefaults(in: files, allowed: ["A.swift": 1, "B.swift": 1]).isEmpty)
        let stale = enumDefaults(in: files, allowed: ["A.swift": 2, "B.swift": 1, "C.swift": 1])
        #expect(stale.map(\.path) == ["A.swift", "C.swift"])
    }
}

/// Returns the defaults of files that have more of them than are allowed, and the numbers that are too large.
private func enumDefaults(in files: [SourceFile], allowed: [String: Int]) -> [Finding] {
    var findings: [Finding] = []
    var unused = allowed
    for file in files {
        let lines = enumDefaultLines(file)
        let count = allowed[file.path] ?? 0
        unused[file.path] = max(0, count - lines.count)
        guard lines.count > count else { continue }
        let message =
            "default in a switch over an enum. Name its cases; if it is not one of the project, "
            + "add the file to EnumDefaultTests.allowed."
        findings += lines.map { Finding(path: file.path, line: $0, message: message) }
    }
    let stale = unused.filter { $0.value > 0 }.keys.sorted()
    return findings
        + stale.map { path in
            Finding(path: path, message: "EnumDefaultTests.allowed has too large a number.")
        }
}

/// Returns the numbers of the lines with a default whose switch has a pattern such as `.name`.
private func enumDefaultLines(_ file: SourceFile) -> [Int] {
    let lines = file.code
    return lines.indices.filter { index in
        let indent = lines[index].prefix { $0 == " " }
        guard lines[index].dropFirst(indent.count).hasPrefix("default:") else { return false }
        // The cases of the switch have the indentation of the default, and so has the switch.
        for line in lines[..<index].reversed() where !line.allSatisfy(\.isWhitespace) {
            guard line.hasPrefix(indent) else { return false }
            let rest = line.dropFirst(indent.count)
            if rest.hasPrefix("case "), namesCase(rest.dropFirst("case ".count)) { return true }
            if rest.first != " ", rest.contains("switch ") { return false }
        }
        return false
    }
    .map { $0 + 1 }
}

/// Whether a pattern, which ends at the colon, contains a case by its name.
private func namesCase(_ line: Substring) -> Bool {
    line.prefix { $0 != ":" }
        .split { " (,".contains($0) }
        .prefix { $0 != "where" }
        .contains { $0.hasPrefix(".") && $0.dropFirst().first?.isLowercase == true }
}
