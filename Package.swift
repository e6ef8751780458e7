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
        // The model of the field-service app; Xcode builds its views (Examples/FieldService/App).
        .target(
            name: "FieldServiceModel",
            dependencies: ["Tideline"],
            path: "Examples/FieldService/Model",
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
        // With the tables of Examples/FieldService/server.json.
        .testTarget(
            name: "FieldServiceTests",
            dependencies: [
                "FieldServiceModel", "Tideline", "TidelineCore", "TidelineServer",
                "TidelineServerCore", "TidelineTestKit",
            ],
            swiftSettings: strict
        ),
        // Support code of several test targets: one target for tests of the client, one for tests of the server.
        .target(
            name: "TidelineTestSupport",
            dependencies: ["Tideline", "TidelineCore", "TidelineServerCore", "TidelineTestKit"],
            path: "Tests/Support/Client",
            swiftSettings: strict
        ),
        .target(
            name: "ServerTestSupport",
            dependencies: [
                "CCrypto", "TidelineCore", "TidelineHTTP", "TidelinePostgres", "TidelineSQLite",
                "TidelineServer", "TidelineServerCore", "TidelineServerPostgres",
                "TidelineServerSQLite", "TidelineTLS", "TidelineTestKit", "TidelineTokens",
            ],
            path: "Tests/Support/Server",
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
            name: "TidelineTests",
            dependencies: [
                "Tideline", "TidelineCore", "TidelineSQLite", "TidelineServerCore",
                "TidelineServerSQLite", "TidelineTestKit", "TidelineTestSupport",
            ],
            swiftSettings: strict
        ),
        // With sockets.
        .testTarget(
            name: "TidelineTransportTests",
            dependencies: ["Tideline", "TidelineCore"],
            swiftSettings: strict
        ),
        // The tests of the client that measure time.
        .testTarget(
            name: "TidelineDeadlineTests",
            dependencies: ["Tideline", "TidelineCore", "TidelineTestKit", "TidelineTestSupport"],
            swiftSettings: strict
        ),
        // Seeded simulations of devices and a server.
        .testTarget(
            name: "SimulationTests",
            dependencies: [
                "Tideline", "TidelineCore", "TidelineServerCore", "TidelineTestKit",
                "TidelineTestSupport",
            ],
            swiftSettings: strict
        ),
        // Seeded simulations with several servers on PostgreSQL.
        .testTarget(
            name: "ServerSimulationTests",
            dependencies: ["TidelineServerPostgres", "TidelineTestKit"],
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
            name: "TidelineTLSTests",
            dependencies: [
                "CCrypto", "ServerTestSupport", "TidelineCore", "TidelineHTTP",
                "TidelineServerCore", "TidelineTLS",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TidelineHTTPTests",
            dependencies: [
                "ServerTestSupport", "TidelineCore", "TidelineHTTP", "TidelineServerCore",
                "TidelineTestKit",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TidelineTokensTests",
            dependencies: ["TidelineCore", "TidelineTokens", "CCrypto"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TidelinePostgresTests",
            dependencies: [
                "ServerTestSupport", "TidelineCore", "TidelinePostgres", "TidelineServerCore",
                "TidelineServerPostgres", "TidelineTestKit",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TidelineServerCoreTests",
            dependencies: [
                "ServerTestSupport", "TidelineCore", "TidelineServerCore", "TidelineTestKit",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TidelineServerSQLiteTests",
            dependencies: [
                "ServerTestSupport", "TidelineCore", "TidelineSQLite", "TidelineServer",
                "TidelineServerCore", "TidelineServerSQLite", "TidelineTestKit",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TidelineServerPostgresTests",
            dependencies: [
                "ServerTestSupport", "TidelineCore", "TidelinePostgres", "TidelineServer",
                "TidelineServerCore", "TidelineServerPostgres", "TidelineServerSQLite",
                "TidelineTestKit", "TidelineTestSupport",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TidelineServerTests",
            dependencies: [
                "ServerTestSupport", "TidelineCore", "TidelineDashboard", "TidelineFetch",
                "TidelineHTTP", "TidelinePostgres", "TidelineSQLite", "TidelineServer",
                "TidelineServerCore", "TidelineServerPostgres", "TidelineServerSQLite",
                "TidelineTestKit", "TidelineTokens",
            ],
            swiftSettings: strict
        ),
        // The routes with recorded transcripts and tables of cases, on both databases: `make protocol`.
        .testTarget(
            name: "TidelineProtocolTests",
            dependencies: [
                "CZlib", "ServerTestSupport", "Tideline", "TidelineCore", "TidelineSQLite",
                "TidelineServer", "TidelineServerCore", "TidelineServerSQLite", "TidelineTestKit",
            ],
            swiftSettings: strict
        ),
        // The tests of the server that measure time.
        .testTarget(
            name: "ServerDeadlineTests",
            dependencies: [
                "ServerTestSupport", "TidelineCore", "TidelinePostgres", "TidelineSQLite",
                "TidelineServerCore", "TidelineServerPostgres", "TidelineServerSQLite",
                "TidelineTestKit", "TidelineTestSupport",
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
                "TidelineServerCore", "TidelineSQLite", "TidelineTestKit", "TidelineTestSupport",
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
        .testTarget(name: "RepositoryTests", exclude: ["Messages.txt"], swiftSettings: strict),
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
        "FieldServiceModel", "TidelineTestSupport", "TidelineCoreTests", "TidelineTests",
        "TidelineTransportTests",
        "TidelineDeadlineTests", "SimulationTests", "TodoAppTests",
        "ContractExampleIsolationTests",
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

// Builds only the named test targets: `TIDELINE_TEST_TARGETS=TidelineTests swift build --build-tests`.
if let names = Context.environment["TIDELINE_TEST_TARGETS"]?.split(separator: ",") {
    package.targets.removeAll { $0.type == .test && !names.contains($0.name[...]) }
}
