// TableStoreConformance on every backend.

import Foundation
import ServerTestSupport
import Testing
import TidelineServerCore
import TidelineServerPostgres
import TidelineServerSQLite
import TidelineTestKit

@Suite struct TableStoreConformanceTests {
    enum Backend: CaseIterable {
        case file
        case sqliteInMemory
        /// The smallest backend, which only tests use.
        case memory
        case postgres
        /// Two servers on one PostgreSQL, alternately.
        case twoServers
        /// Pages are read from a standby.
        case replica

        /// PostgreSQL only if it is installed, and with two servers or a standby only in a run of all tests.
        static let present = allCases.filter {
            switch $0 {
            case .file, .sqliteInMemory, .memory: true
            case .postgres: PostgresCluster.reasonToSkip == nil
            case .twoServers, .replica: PostgresCluster.reasonToSkip == nil && TestScope.coversAll
            }
        }

        var isOnPostgres: Bool {
            switch self {
            case .file, .sqliteInMemory, .memory: false
            case .postgres, .twoServers, .replica: true
            }
        }

        func stores(in directory: String) -> TableStoreConformance.Stores {
            switch self {
            case .file: Self.sqliteStores(directory + "/conformance.db")
            case .sqliteInMemory: Self.sqliteStores(":memory:")
            case .memory: Self.memoryStores
            case .postgres: Self.postgresStores(1)
            case .twoServers: Self.postgresStores(2)
            case .replica: Self.replicaStores
            }
        }

        private static func sqliteStores(_ path: String) -> TableStoreConformance.Stores {
            { limits, now in
                var options = SQLiteTableStore.Options()
                options.limits = limits
                options.now = now
                options.inline = path == ":memory:"
                return try SQLiteTableStore(path: path, options: options)
            }
        }

        private static let memoryStores: TableStoreConformance.Stores = { limits, now in
            var options = MemoryTableStore.Options()
            options.limits = limits
            options.now = now
            return MemoryTableStore(options)
        }

        private static let replicaStores: TableStoreConformance.Stores = { limits, now in
            var options = PostgresTableStore.Options()
            options.limits = limits
            options.now = now
            options.readers = 2
            let (primary, standby) = try PostgresCluster.sharedPair()
            let url = try primary.database()
            options.replica = standby.url(of: PostgresCluster.name(in: url))
            return try PostgresTableStore(url: url, options: options)
        }

        private static func postgresStores(_ count: Int) -> TableStoreConformance.Stores {
            { limits, now in
                var options = PostgresTableStore.Options()
                options.limits = limits
                options.now = now
                options.readers = 2
                let url = try PostgresCluster.shared().database()
                let stores = try (0..<count).map { _ in
                    try PostgresTableStore(url: url, options: options)
                }
                return count == 1 ? stores[0] : AlternatingStore(stores)
            }
        }
    }

    @Test(
        "Every table store passes the conformance checks",
        arguments: Backend.present,
        TableStoreConformance.all
    )
    func conforms(backend: Backend, check: TableStoreConformance.Check) async throws {
        let slot = backend.isOnPostgres ? await DatabaseSlots.shared.take() : nil
        try await withTemporaryDirectory { directory in
            try await check.run(backend.stores(in: directory))
        }
        withExtendedLifetime(slot) {}
    }
}
