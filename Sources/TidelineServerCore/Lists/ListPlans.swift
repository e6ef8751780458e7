// ListPlans: cached query plans.
//
// Devices often request the same first page, and parsing the options costs more than a small page.

import Synchronization
import TidelineCore

/// A cache of query plans by the text of the query.
final class ListPlans: Sendable {
    struct Query: Hashable, Sendable {
        /// The identifier of the table's definition, an object that is replaced when columns are added.
        let table: ObjectIdentifier
        let text: String
        let generation: Generation
        let pageSizeWanted: Int?
        let includesDeleted: Bool

        /// Whether the text is ASCII.
        ///
        /// Other strings can be equal in Swift although their bytes differ.
        var hasOneSpelling: Bool { text.utf8.allSatisfy { $0 < 0x80 } }
    }

    private struct CachedPlan {
        /// The table, which is retained so that no other object gets its identifier.
        let table: Table
        let plan: ListPlan
    }

    /// The maximum number of plans of a generation.
    private static let countMax = 128
    private static let textBytesMax = 1024

    private let plans = Mutex(GenerationCache<Query, CachedPlan>(countMax: countMax))

    func plan(_ query: Query) -> ListPlan? {
        guard query.hasOneSpelling else { return nil }
        return plans.withLock { $0.value(query)?.plan }
    }

    /// Caches the plan of a first page, unless it depends on the time; the queries of later pages all differ.
    func keep(_ plan: inout ListPlan, for query: Query, of table: Table) {
        guard query.text.utf8.count <= Self.textBytesMax, query.hasOneSpelling, plan.isFirstPage,
            !plan.dependsOnTime
        else { return }
        plan.request.rendering = CachedRendering()
        let cached = CachedPlan(table: table, plan: plan)
        plans.withLock { $0.put(cached, for: query) }
    }
}
