// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = [
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .enableUpcomingFeature("InferIsolatedConformances"),
    .enableUpcomingFeature("ImmutableWeakCaptures"),
]

let package = Package(
    name: "tideline",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "Tideline", targets: ["Tideline"]),
        .library(name: "TidelineServer", targets: ["TidelineServer"]),
        .library(name: "TidelineTestKit", targets: ["TidelineTestKit"]),
        .executable(name: "tideline", targets: ["TidelineCommand"]),
        .executable(name: "todo", targets: ["todo"]),
        .executable(name: "demo-page", targets: ["demo-page"]),
    ],
    traits: [
        .trait(
            name: "SQLCipher",
            description: "Encrypted stores on SQLCipher: SQLiteStore(path:key:). For clients only."
        )
    ],
    targets: [
        // The module map is enough to find it. With a name for pkg-config it would be linked in addition to
        // SQLCipher, which has the same functions.
        .systemLibrary(name: "CSQLite", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(
            name: "CSQLCipher",
            pkgConfig: "sqlcipher",
            providers: [.apt(["libsqlcipher-dev"]), .brew(["sqlcipher"])]
        ),
        .systemLibrary(name: "CEpoll"),
        .systemLibrary(
            name: "CCurl",
            pkgConfig: "libcurl",
            providers: [.apt(["libcurl4-openssl-dev"])]
        ),
        .systemLibrary(
            name: "CZlib",
            pkgConfig: "zlib",
            providers: [.apt(["zlib1g-dev"])]
        ),
        .systemLibrary(
            name: "CCrypto",
            pkgConfig: "openssl",
            providers: [.apt(["libssl-dev"]), .brew(["openssl@3"])]
        ),
        .systemLibrary(
            name: "CLibPQ",
            pkgConfig: "libpq",
            providers: [.apt(["libpq-dev"]), .brew(["libpq"])]
        ),
        .target(name: "TidelineCore", swiftSettings: strict),
        .target(
            name: "TidelineSQLite",
            dependencies: [
                "TidelineCore", "CSQLite",
                .target(name: "CSQLCipher", condition: .when(traits: ["SQLCipher"])),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "TidelinePostgres",
            dependencies: ["TidelineCore", "CLibPQ"],
            swiftSettings: strict
        ),
        .target(
            name: "Tideline",
            dependencies: [
                "TidelineCore", "TidelineSQLite",
                .target(name: "CCurl", condition: .when(platforms: [.linux])),
                .target(name: "CZlib", condition: .when(platforms: [.linux])),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "TidelineServerCore",
            dependencies: ["TidelineCore", "CZlib"],
            swiftSettings: strict
        ),
        .target(
            name: "TidelineServerSQLite",
            dependencies: ["TidelineCore", "TidelineServerCore", "TidelineSQLite"],
            swiftSettings: strict
        ),
        .target(
            name: "TidelineServerPostgres",
            dependencies: ["TidelineCore", "TidelineServerCore", "TidelinePostgres"],
            swiftSettings: strict
        ),
        .target(name: "TidelineTLS", dependencies: ["CCrypto"], swiftSettings: strict),
        .target(
            name: "TidelineHTTP",
            dependencies: ["TidelineCore", "TidelineServerCore", "TidelineTLS", "CEpoll"],
            swiftSettings: strict
        ),
        .target(
            name: "TidelineTokens",
            dependencies: ["TidelineCore", "CCrypto"],
            swiftSettings: strict
        ),
        // Fetches documents for the server: the keys of tokens.
        .target(name: "TidelineFetch", dependencies: ["CCurl"], swiftSettings: strict),
        // The files of the page are embedded in code, so that the server is one binary.
        .target(
            name: "TidelineDashboard",
            resources: [.embedInCode("Page")],
            swiftSettings: strict
        ),
        .target(
            name: "TidelineServer",
            dependencies: [
                "TidelineCore", "TidelineDashboard", "TidelineFetch", "TidelineServerCore",
                "TidelineServerPostgres", "TidelineServerSQLite", "TidelineHTTP", "TidelineTLS",
                "TidelineTokens",
            ],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "TidelineCommand",
            dependencies: ["Tideline", "TidelineCore", "TidelineServer", "TidelineServerCore"],
            swiftSettings: strict
        ),
        .target(
            name: "TidelineTestKit",
            dependencies: [
                "Tideline", "TidelineCore", "TidelineServerCore", "TidelineServerSQLite",
            ],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "todo",
            dependencies: ["Tideline"],
            path: "Examples/Todo",
            swiftSettings: strict
        ),
        // The model of the SwiftUI app; its views (Examples/TodoApp/App) are built by Xcode.
        .target(
            name: "TodoAppModel",
            dependencies: ["Tideline"],
            path: "Examples/TodoApp/Model",
            swiftSettings: strict
        ),
        // Two phones and a server on a page: `make demo ARGS=--page`.
        .executableTarget(
            name: "demo-page",
            dependencies: ["Tideline", "TidelineServer", "TodoAppModel"],
            path: "Examples/DemoPage",
            resources: [.embedInCode("Page")],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TodoAppTests",
            dependencies: [
                "Tideline", "TidelineCore", "TidelineServerCore", "TidelineTestKit", "TodoAppModel",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TidelineCoreTests",
            dependencies: [
                "CSQLite", "TidelineCore", "TidelinePostgres", "TidelineSQLite", "TidelineTestKit",
                .target(name: "CSQLCipher", condition: .when(traits: ["SQLCipher"])),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TidelineModelTests",
            dependencies: ["Tideline", "TidelineCore"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TidelineTransportTests",
            dependencies: ["Tideline", "TidelineCore"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TidelineSyncTests",
            dependencies: [
                "Tideline", "TidelineCore", "TidelineSQLite", "TidelineServerCore",
                "TidelineServerSQLite", "TidelineTestKit",
            ],
            swiftSettings: strict
        ),
        // The contract's example, with the settings that apps have and ours do not.
        .executableTarget(
            name: "ContractExampleMain",
            dependencies: ["Tideline"],
            path: "Tests/ContractExampleMain",
            swiftSettings: [.treatAllWarnings(as: .error)]
        ),
        .testTarget(
            name: "ContractExampleTests",
            dependencies: ["ContractExampleMain", "Tideline", "TidelineServer"],
            swiftSettings: [.treatAllWarnings(as: .error)]
        ),
        .testTarget(
            name: "ContractExampleIsolationTests",
            dependencies: ["Tideline", "TidelineServerCore", "TidelineTestKit"],
            swiftSettings: [.treatAllWarnings(as: .error), .defaultIsolation(MainActor.self)]
        ),
        .testTarget(
            name: "TidelineHTTPTests",
            dependencies: [
                "CCrypto", "TidelineCore", "TidelineServerCore", "TidelineHTTP", "TidelineTLS",
                "TidelineTestKit",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TidelineServerTests",
            dependencies: [
                "CZlib", "Tideline", "TidelineCore", "TidelineDashboard", "TidelineFetch",
                "TidelineHTTP",
                "TidelinePostgres", "TidelineServer", "TidelineServerCore",
                "TidelineServerPostgres",
                "TidelineServerSQLite", "TidelineSQLite", "TidelineTestKit", "TidelineTokens",
            ],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "SyncProbe",
            dependencies: ["Tideline"],
            path: "Tests/SyncProbe",
            swiftSettings: strict
        ),
        .testTarget(
            name: "IntegrationTests",
            dependencies: [
                "Tideline", "TidelineCore", "TidelinePostgres", "TidelineServer",
                "TidelineServerCore", "TidelineSQLite", "TidelineTestKit",
                // Only to be built: the tests start them as processes.
                "SyncProbe", "TidelineCommand", "demo-page", "todo",
            ],
            swiftSettings: strict
        ),
        // Seeded simulations in release mode: `make simulation`.
        .executableTarget(
            name: "worlds",
            dependencies: ["TidelineTestKit"],
            path: "Tests/Worlds",
            swiftSettings: strict
        ),
        // Counts the allocations of the main operations in release mode: `make check`.
        .executableTarget(
            name: "allocations",
            dependencies: [
                "CAllocations", "Tideline", "TidelineCore", "TidelineServerCore",
                "TidelineServerSQLite", "TidelineTestKit",
            ],
            path: "Tests/Allocations",
            exclude: ["thresholds.txt"],
            swiftSettings: strict
        ),
        .target(name: "CAllocations", path: "Tests/CAllocations"),
        .testTarget(
            name: "TidelineTokensTests",
            dependencies: ["TidelineCore", "TidelineTokens", "CCrypto"],
            swiftSettings: strict
        ),
        // The targets of the fuzzer (Fuzz/Package.swift), for a test that replays its corpus.
        .target(
            name: "FuzzTargets",
            dependencies: [
                "TidelineCore", "TidelineSQLite", "TidelineServerCore", "TidelineServerSQLite",
                "TidelineHTTP", "TidelineTokens",
            ],
            path: "Fuzz/Targets",
            swiftSettings: strict
        ),
        .testTarget(name: "FuzzTests", dependencies: ["FuzzTargets"], swiftSettings: strict),
        .testTarget(name: "RepositoryTests", swiftSettings: strict),
        // Planted mistakes, to try the sanitizers themselves (scripts/sanitize).
        .testTarget(name: "SanitizerTests", swiftSettings: strict),
    ],
    swiftLanguageModes: [.v6]
)

// The server needs Linux (epoll): elsewhere the package is the client with its test kit and their tests.
#if os(Linux)
// The Swift Package Index sets SPI_BUILD, and its image has no libpq.
let hasServer =
    Context.environment["TIDELINE_ONLY_CLIENT"] == nil && Context.environment["SPI_BUILD"] == nil
#else
let hasServer = false
#endif

if !hasServer {
    let ofClient: Set<String> = [
        "CSQLite", "CSQLCipher", "CCurl", "CZlib", "TidelineCore", "TidelineSQLite", "Tideline",
        "TidelineServerCore", "TidelineServerSQLite", "TidelineTestKit", "TodoAppModel", "todo",
        "TidelineCoreTests", "TidelineModelTests", "TidelineTransportTests", "TidelineSyncTests",
        "TodoAppTests", "ContractExampleIsolationTests",
    ]
    package.products.removeAll { !ofClient.contains($0.name) }
    package.targets.removeAll { !ofClient.contains($0.name) }
    for target in package.targets {
        // Not `canImport`: a module of an earlier build may lie in the same folder.
        if target.name == "TidelineCoreTests" {
            target.swiftSettings = strict + [.define("ONLY_CLIENT")]
        }
        target.dependencies.removeAll { dependency in
            switch dependency {
            case .byNameItem(let name, _), .targetItem(let name, _): !ofClient.contains(name)
            default: false
            }
        }
    }
}
