// ListPlans: the plans of queries that came before, by their text.
//
// Devices ask the same first page, and small pages cost less than the reading of their options.

import Synchronization
import TidelineCore

final class ListPlans: Sendable {
    struct Query: Hashable, Sendable {
        /// The table's definition: one with more columns is another object.
        let table: ObjectIdentifier
        let text: String
        let generation: Generation
        let pageSizeWanted: Int?
        let includesDeleted: Bool

        /// Swift takes texts for equal that are not the same bytes, but not in ASCII.
        var hasOneSpelling: Bool { text.utf8.allSatisfy { $0 < 0x80 } }
    }

    private struct Kept {
        /// Keeps the object of the key from becoming another one.
        let table: Table
        let plan: ListPlan
    }

    /// The most plans of a generation.
    private static let countMax = 128
    private static let textBytesMax = 1024

    private let plans = Mutex(GenerationCache<Query, Kept>(countMax: countMax))

    func plan(_ query: Query) -> ListPlan? {
        guard query.hasOneSpelling else { return nil }
        return plans.withLock { $0.value(query)?.plan }
    }

    /// Caches the plan unless it is one of very many: each page after the first has a query of its
    /// own.
    func keep(_ plan: inout ListPlan, for query: Query, of table: Table) {
        guard query.text.utf8.count <= Self.textBytesMax, query.hasOneSpelling, plan.isFirstPage,
            !plan.dependsOnTime
        else { return }
        plan.request.kept = KeptRendering()
        let kept = Kept(table: table, plan: plan)
        plans.withLock { $0.put(kept, for: query) }
    }
}
