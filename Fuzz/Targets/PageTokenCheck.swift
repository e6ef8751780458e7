// PageTokenCheck: the `$skiptoken` of a next link, up to the SQL statement of the next page.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The first byte selects an order, and whether the other bytes are a token or the JSON in a token.
final class PageTokenCheck {
    private static let table = Table(
        TableDefinition(
            "t",
            columns: [
                ColumnDefinition("s", .string), ColumnDefinition("i", .integer),
                ColumnDefinition("n", .number), ColumnDefinition("d", .decimal),
                ColumnDefinition("b", .boolean), ColumnDefinition("t", .dateTime),
                ColumnDefinition("bytes", .binary),
                ColumnDefinition("e", .enumeration(["low", "high"])),
            ]
        )
    )

    private static let orders = [
        "", "s", "i desc", "n,d desc", "updatedAt", "t desc,b", "bytes desc,e", "d,t",
        "version,s desc", "length(s),year(t) desc", "i mul 2,n add d", "id desc", "b,e desc,i",
        "tolower(s) desc", "cast(s,'Edm.DateTimeOffset')", "i gt 1,createdAt desc",
    ]

    private let renderer = FilterRenderer(
        schema: table.definition.schema,
        dateUnit: .microseconds
    )
    private let database: Database

    init() throws {
        database = try Database(path: ":memory:")
        let columns = SystemColumn.definitions + Self.table.columns
        let names = columns.map { "\"\($0.name)\"" }
        try database.execute("CREATE TABLE t (\(names.joined(separator: ", ")))")
        try database.execute(
            """
            INSERT INTO t VALUES ('1', 0, 25, 25, 0, 'a', 1, 0.5, '1.5', 1, 1000, x'00ff', 'low'),
            ('2', 50, 50, 50, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
            """
        )
    }

    func run(_ input: UnsafeBufferPointer<UInt8>) throws {
        let rest = input.dropFirst()
        let token =
            input[0] & 0x10 == 0 ? Base64URL.encode(rest) : String(decoding: rest, as: UTF8.self)
        let order = Self.orders[Int(input[0] & 0xF)]
        let query =
            "$skiptoken=" + PercentCoding.encode(token)
            + (order.isEmpty ? "" : "&$orderby=" + PercentCoding.encode(order))
        do {
            let options = try ListOptions(
                QueryParameters(query),
                generation: .datasync
            )
            let plan = try ListPlan(
                options,
                table: Self.table,
                generation: .datasync,
                limits: ServerLimits(),
                isDynamic: false,
                now: 0
            )
            if let request = plan?.request { try page(request) }
        } catch let error as ServerError {
            try demand(error.status == 400, "a bad token is the caller's fault")
        }
    }

    /// Checks that an accepted token gives a page, and that its keys survive encoding and decoding.
    private func page(_ request: ListRequest) throws {
        let keyset = KeysetRenderer(renderer, order: request.order)
        let types = keyset.keys.map { PageToken.type(of: $0, in: renderer.schema) }
        let token = request.anchor.map { PageToken.anchor($0) } ?? request.after.map { .keys($0) }
        guard let token else { return }
        try demand(PageToken(token.text, types) == token, "a token comes back")
        guard let after = request.after else { return }
        if case .anchor(let anchor) = PageToken(after, version: 7) {
            let short = PageToken.anchor(anchor)
            try demand(short.text.utf8.count < 3000, "a anchor is short")
            try demand(PageToken(short.text, types) == short, "a anchor comes back")
        }
        let values = zip(after, types).map { Value($0, as: $1) }
        let condition = keyset.condition(after: values)
        let statement = try database.prepare(
            "SELECT \"id\" FROM t WHERE \(condition.text(for: .sqlite))"
        )
        defer { statement.reset() }
        try statement.bind(condition.bindings)
        while try statement.step() {}
    }
}
