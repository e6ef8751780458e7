// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = [
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

// A package of its own, so that all of it is built with coverage. The folders in Sources are links
// to those of the root: a product would not show what targets share among themselves.
let package = Package(
    name: "fuzz",
    platforms: [.macOS(.v15)],
    targets: [
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3"),
        .systemLibrary(name: "CCrypto", pkgConfig: "openssl"),
        .systemLibrary(name: "CEpoll"),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib"),
        .target(name: "TidelineCore", swiftSettings: strict),
        .target(
            name: "TidelineSQLite",
            dependencies: ["TidelineCore", "CSQLite"],
            swiftSettings: strict
        ),
        .target(
            name: "TidelineServerCore",
            dependencies: ["TidelineCore", "CZlib"],
            swiftSettings: strict
        ),
        .target(
            name: "TidelineServerSQLite",
            dependencies: ["TidelineCore", "TidelineSQLite", "TidelineServerCore"],
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
        .target(
            name: "FuzzTargets",
            dependencies: [
                "TidelineCore", "TidelineSQLite", "TidelineServerCore", "TidelineServerSQLite",
                "TidelineHTTP", "TidelineTokens",
            ],
            path: "Targets",
            swiftSettings: strict
        ),
        .executableTarget(name: "fuzz", dependencies: ["FuzzTargets"], swiftSettings: strict),
    ],
    swiftLanguageModes: [.v6]
)
