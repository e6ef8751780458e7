// ImportTests: the arrows of docs/architecture.md, as a table and as a test.
//
// The compiler's own check (`make check`) finds a target that is not declared at all; it lets
// pass one that is reachable through another, such as CSQLite in the server. This finds both.

import Foundation
import Testing

struct ImportTests {
    struct Allowed {
        var ours: Set<String>
        var system: Set<String>
    }

    private static let platform: Set<String> = [
        "Foundation", "Dispatch", "Synchronization", "Glibc", "Darwin",
    ]

    /// What each target may import.
    ///
    /// FoundationNetworking is in no list: on Linux its sessions were
    /// measured to hang and crash, and the client has its own transport there.
    static let allowed: [String: Allowed] = [
        // Values and text only: no files, no sockets, no threads.
        "TidelineCore": Allowed(ours: [], system: ["Foundation"]),
        "TidelineSQLite": Allowed(
            ours: ["TidelineCore", "CSQLCipher", "CSQLite"],
            system: platform
        ),
        // Network tells on Apple platforms when a network comes; Observation and SwiftUI are for views.
        "Tideline": Allowed(
            ours: ["TidelineCore", "TidelineSQLite", "CCurl", "CZlib"],
            system: platform.union(["Network", "Observation", "Security", "SwiftUI", "zlib"])
        ),
        "TidelineServerCore": Allowed(ours: ["TidelineCore", "CZlib"], system: platform),
        "TidelineServerSQLite": Allowed(
            ours: ["TidelineCore", "TidelineServerCore", "TidelineSQLite"],
            system: platform
        ),
        "TidelinePostgres": Allowed(ours: ["TidelineCore", "CLibPQ"], system: ["Foundation"]),
        "TidelineServerPostgres": Allowed(
            ours: ["TidelineCore", "TidelineServerCore", "TidelinePostgres"],
            system: platform
        ),
        "TidelineHTTP": Allowed(
            ours: ["TidelineCore", "TidelineServerCore", "TidelineTLS", "CEpoll"],
            system: platform
        ),
        "TidelineTLS": Allowed(ours: ["CCrypto"], system: ["Foundation", "Synchronization"]),
        "TidelineTokens": Allowed(ours: ["TidelineCore", "CCrypto"], system: ["Foundation"]),
        "TidelineFetch": Allowed(ours: ["CCurl"], system: ["Foundation"]),
        "TidelineServer": Allowed(
            ours: [
                "TidelineCore", "TidelineDashboard", "TidelineFetch", "TidelineServerCore",
                "TidelineServerPostgres", "TidelineServerSQLite", "TidelineHTTP", "TidelineTLS",
                "TidelineTokens",
            ],
            system: platform
        ),
        "TidelineDashboard": Allowed(ours: [], system: []),
        "TidelineCommand": Allowed(
            ours: ["Tideline", "TidelineCore", "TidelineServer", "TidelineServerCore"],
            system: platform
        ),
        "TidelineTestKit": Allowed(
            ours: [
                "Tideline", "TidelineCore", "TidelineServerCore", "TidelineServerSQLite",
                "TidelineSQLite",
            ],
            system: platform
        ),
        "Examples/TodoApp/Model": Allowed(
            ours: ["Tideline"],
            system: ["Foundation", "Observation", "Synchronization"]
        ),
        "Examples/TodoApp/App": Allowed(
            ours: ["Tideline", "TodoAppModel"],
            system: ["Foundation", "SwiftUI"]
        ),
        "Examples/Todo": Allowed(ours: ["Tideline"], system: platform),
        "Examples/DemoPage": Allowed(
            ours: ["Tideline", "TidelineServer", "TodoAppModel"],
            system: platform
        ),
    ]

    @Test func importsFollowTheArrows() throws {
        let files = try Repository.swiftFiles().filter { $0.isIn("Sources", "Examples") }
        expectNone(files.flatMap(forbiddenImports))
    }

    @Test(arguments: [
        ("Sources/TidelineCore/A.swift", "import Foundation", 0),
        ("Sources/TidelineCore/A.swift", "public import struct Foundation.Date", 0),
        ("Sources/TidelineCore/A.swift", "// import CSQLite", 0),
        ("Sources/TidelineCore/A.swift", "import Glibc", 1),
        ("Sources/TidelineCore/A.swift", "import TidelineSQLite", 1),
        ("Sources/TidelineServer/A.swift", "import CSQLite", 1),
        ("Sources/TidelineServer/A.swift", "import CCrypto", 1),
        ("Sources/TidelineServer/A.swift", "@_exported public import TidelineServerCore", 0),
        ("Sources/TidelineServer/A.swift", "@_exported public import Tideline", 1),
        ("Sources/Tideline/A.swift", "@preconcurrency import class TidelineServer.Server", 1),
        ("Sources/Tideline/A.swift", "import FoundationNetworking", 1),
        ("Sources/Tideline/A.swift", "import Foundation; import TidelineHTTP", 1),
        ("Sources/New/A.swift", "import Foundation", 1),
        ("Examples/Todo/A.swift", "import Tideline\nimport TidelineCore", 1),
    ])
    func canFail(path: String, text: String, count: Int) {
        #expect(forbiddenImports(SourceFile(path: path, text: text)).count == count)
    }
}

/// The target that a file under `Sources` belongs to; the folder of one under `Examples`.
private func target(of path: String) -> String {
    let parts = path.split(separator: "/")
    return parts[0] == "Examples" ? parts.dropLast().joined(separator: "/") : String(parts[1])
}

private func forbiddenImports(_ file: SourceFile) -> [Finding] {
    let target = target(of: file.path)
    guard let allowed = ImportTests.allowed[target] else {
        let message = "Target \(target) is not in ImportTests.allowed. Add it with its arrows."
        return [Finding(path: file.path, message: message)]
    }
    let known = allowed.ours.union(allowed.system)
    return imports(in: file.code).filter { !known.contains($0.module) }.map { line, module in
        let message = "\(target) may not import \(module); it may import \(known.sorted())."
        return Finding(path: file.path, line: line, message: message)
    }
}

private let importKinds: Set<Substring> = [
    "struct", "class", "enum", "protocol", "typealias", "func", "let", "var",
]

/// The modules that lines of code import, each with its line.
private func imports(in code: [Substring]) -> [(line: Int, module: String)] {
    var imports: [(line: Int, module: String)] = []
    for (index, line) in code.enumerated() where line.utf8.count > "import ".utf8.count {
        for statement in line.split(separator: ";") {
            let words = statement.split(whereSeparator: \.isWhitespace)
            guard let keyword = words.firstIndex(of: "import") else { continue }
            let names = words[(keyword + 1)...].drop { importKinds.contains($0) }
            if let module = names.first?.split(separator: ".").first {
                imports.append((index + 1, String(module)))
            }
        }
    }
    return imports
}
