// SampleTable: the overloads of the client's tables, to check that all kinds of calls compile.

import Foundation
import Tideline
import TidelineCore

/// A table with the overloads of the client's tables, without a store.
struct SampleTable<Record: Sendable>: Sendable {
    let coder: RecordCoder<Record>

    func read(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        sortedBy terms: [SortTerm<Record>] = [],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) async throws -> TableQuery {
        var query = TableQuery(filter: try coder.filter(condition))
        query.order = try coder.order(terms)
        query.limit = limit
        query.offset = offset
        return query
    }

    func read(
        where predicate: Predicate<Record>,
        sortedBy terms: [SortTerm<Record>] = [],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) async throws -> TableQuery {
        var query = TableQuery(filter: try coder.filter(predicate))
        query.order = try coder.order(terms)
        return query
    }
}

extension SampleTable where Record: SyncRecord {
    func read(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        sortedBy descriptors: [SortDescriptor<Record>],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) async throws -> TableQuery {
        var query = TableQuery(filter: try coder.filter(condition))
        query.order = try coder.order(descriptors)
        return query
    }

    func read(
        where predicate: Predicate<Record>,
        sortedBy descriptors: [SortDescriptor<Record>],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) async throws -> TableQuery {
        var query = TableQuery(filter: try coder.filter(predicate))
        query.order = try coder.order(descriptors)
        return query
    }
}

func tasks() throws -> SampleTable<Chore> {
    SampleTable(coder: try .model(for: Chore.self))
}
