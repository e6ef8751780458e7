// TableStoreConformance on every backend there is.

import Foundation
import Testing
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit

@Suite struct TableStoreConformanceTests {
    enum Backend: CaseIterable {
        case file
        case memory

        func stores(in directory: String) -> TableStoreConformance.Stores {
            { limits, now in
                var options = SQLiteTableStore.Options()
                options.limits = limits
                options.now = now
                options.inline = self == .memory
                let path = self == .memory ? ":memory:" : directory + "/conformance.db"
                return try SQLiteTableStore(path: path, options: options)
            }
        }
    }

    @Test(arguments: Backend.allCases, TableStoreConformance.all)
    func conforms(backend: Backend, check: TableStoreConformance.Check) async throws {
        try await withTemporaryDirectory { directory in
            try await check.run(backend.stores(in: directory))
        }
    }
}
