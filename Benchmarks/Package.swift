// swift-tools-version: 6.2
import PackageDescription

// A separate package, so that the products of the root package do not contain benchmarks.
let package = Package(
    name: "benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "tideline", path: "..")],
    targets: [
        .systemLibrary(name: "CWatch", path: "CWatch"),
        .systemLibrary(name: "CPlainSQLite", path: "CPlainSQLite"),
        .executableTarget(
            name: "bench",
            dependencies: [
                .product(name: "Tideline", package: "tideline"),
                .target(name: "CWatch", condition: .when(platforms: [.linux])),
                .target(name: "CPlainSQLite", condition: .when(platforms: [.linux])),
            ],
            path: "Sources",
            swiftSettings: [
                .treatAllWarnings(as: .error),
                .enableUpcomingFeature("ExistentialAny"),
                .enableUpcomingFeature("InternalImportsByDefault"),
                .enableUpcomingFeature("MemberImportVisibility"),
                .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)
