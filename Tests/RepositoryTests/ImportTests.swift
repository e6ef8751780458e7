// ImportTests: imports follow the arrows in docs/architecture.md.
//
// The compiler's check (`make check`) finds an import of a target that is not reachable at all, but
// not of one that is reachable through another target, such as CSQLite in the server.

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

    /// The modules that each target may import.
    ///
    /// FoundationNetworking is not allowed, because its sessions hang and crash on Linux. The client
    /// has its own transport there.
    static let allowed: [String: Allowed] = [
        // Only values and text: no files, no sockets, no threads.
        "TidelineCore": Allowed(ours: [], system: ["Foundation"]),
        "TidelineSQLite": Allowed(
            ours: ["TidelineCore", "CSQLCipher", "CSQLite"],
            system: platform
        ),
        // Network reports the network's state on Apple platforms; Observation and SwiftUI are for views.
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
        "Examples/FieldService/Model": Allowed(
            ours: ["Tideline"],
            system: ["Foundation", "Observation"]
        ),
        "Examples/FieldService/App": Allowed(
            ours: ["Tideline"],
            system: ["Foundation", "SwiftUI"]
        ),
        "Examples/Todo": Allowed(ours: ["Tideline"], system: platform),
        "Examples/DemoPage": Allowed(
            ours: ["Tideline", "TidelineServer", "TodoAppModel"],
            system: platform
        ),
    ]

    @Test("Modules import only the modules that they may depend on")
    func importsFollowTheArrows() throws {
        let files = try Repository.swiftFiles().filter { $0.isIn("Sources", "Examples") }
        expectNone(files.flatMap(forbiddenImports))
    }

    @Test(
        "The import rule finds forbidden imports",
        arguments: [
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
        ]
    )
    func canFail(path: String, text: String, count: Int) {
        #expect(forbiddenImports(SourceFile(path: path, text: text)).count == count)
    }
}

/// Returns the target of a file under `Sources`, or the folder of a file under `Examples`.
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

/// Returns the modules that lines of code import, each with its line.
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
