// OriginalTable: a table of an original server.

import Foundation
import Tideline
import TidelineCore

/// The rows of an original server's table, and the operations on them.
struct OriginalTable {
    struct Stored {
        var row: Row
        /// The time in microseconds, as the databases store it; responses contain milliseconds.
        var updatedAt: Timestamp
        var createdAt: Timestamp
        var version: String
        var isDeleted = false

        func id() -> String { row.id }
    }

    let flavor: OriginalServer.Flavor
    let hasSQLiteFunctions: Bool
    let definition: OriginalServer.Table
    var columns: [String: OriginalServer.ColumnType]
    /// The rows in insertion order.
    var rows: [Stored] = []
    private var lastID = 0
    private var lastVersion = 0

    init(
        _ definition: OriginalServer.Table,
        flavor: OriginalServer.Flavor,
        _ hasSQLiteFunctions: Bool
    ) {
        self.definition = definition
        self.flavor = flavor
        self.hasSQLiteFunctions = hasSQLiteFunctions
        columns = definition.columns
    }

    mutating func answer(
        _ request: OriginalRequest,
        now: Date,
        makeID: () -> String
    ) -> TransportResponse {
        let id = request.path.count > 2 ? request.path[2] : nil
        if definition.disabled.contains(request.method) {
            return TransportResponse(status: 405, body: Array("Method Not Allowed".utf8))
        }
        let timestamp = Timestamp(now)
        switch (request.method, id) {
        case ("GET", nil): return list(request)
        case ("GET", let id?): return read(id, request)
        case ("POST", nil): return insert(request, timestamp, makeID)
        case ("POST", let id?): return undelete(id, request, timestamp)
        case ("PATCH", _): return update(id, request, timestamp)
        case ("PUT", let id?) where flavor == .dotNet: return update(id, request, timestamp)
        case ("DELETE", let id?): return delete(id, request, timestamp)
        case ("DELETE", nil) where flavor == .node: return deleteMatches(request, timestamp)
        case ("HEAD", _): return TransportResponse(status: 500)
        default: return .page(404, "Cannot \(request.method)")
        }
    }

    // MARK: - Responses

    func error(_ status: Int, _ text: String) -> TransportResponse {
        .error(status, text, flavor)
    }

    private var missing: TransportResponse {
        flavor == .node ? error(404, "The item does not exist") : TransportResponse(status: 404)
    }

    private func item(_ status: Int, _ stored: Stored) -> TransportResponse {
        var response = TransportResponse.json(status, OriginalJSON.text(written(stored)))
        let tag = stored.version.replacing("\"", with: "\\\"")
        response.headers["ETag"] = "\"\(tag)\""
        return response
    }

    /// Returns the row with every column, as a response contains it.
    func written(_ stored: Stored) -> Row {
        var row = stored.row
        for name in columns.keys where row[name] == nil { row[name] = .null }
        row["createdAt"] = .string(text(stored.createdAt))
        row["updatedAt"] = .string(text(stored.updatedAt))
        row["version"] = .string(stored.version)
        if definition.softDelete { row["deleted"] = .bool(stored.isDeleted) }
        return row
    }

    /// Returns a time as a string; .NET omits trailing zeros of the fraction.
    private func text(_ timestamp: Timestamp) -> String {
        let text = timestamp.text
        guard flavor == .dotNet, text.hasSuffix("Z"), text.contains(".") else { return text }
        var digits = text.dropLast()
        while digits.hasSuffix("0") { digits.removeLast() }
        if digits.hasSuffix(".") { digits.removeLast() }
        return digits + "Z"
    }

    // MARK: - Operations

    private func read(_ id: String, _ request: OriginalRequest) -> TransportResponse {
        let showsDeleted =
            flavor == .dotNet
            && request.parameters.contains {
                $0.name.lowercased() == "__includedeleted" && $0.value == "true"
            }
        guard let place = place(of: id, includingDeleted: showsDeleted) else { return missing }
        return item(200, rows[place])
    }

    private mutating func insert(
        _ request: OriginalRequest,
        _ now: Timestamp,
        _ makeID: () -> String
    ) -> TransportResponse {
        let type = request.headers["Content-Type"]?.lowercased() ?? ""
        guard type.isEmpty || type.hasPrefix("application/json") else {
            return error(500, "An item to insert was not provided")
        }
        let sent: Row
        switch body(request) {
        case .success(let row): sent = row
        case .failure(let rejection): return rejection.response
        }
        var row = payload(sent)
        if definition.autoIncrement {
            lastID += 1
            row["id"] = .integer(Int64(lastID))
        } else {
            let id = Self.text(sent["id"])
            row["id"] = .string(id.isEmpty ? makeID() : id)
        }
        guard place(of: Self.text(row["id"]), includingDeleted: true) == nil else {
            return flavor == .node
                ? .json(409, OriginalJSON.text(sent))
                : error(
                    409,
                    "The operation failed due to a conflict: 'Cannot insert duplicate key'."
                )
        }
        if let rejection = adopt(row) { return rejection }
        var stored = Stored(
            row: typed(row),
            updatedAt: now,
            createdAt: now,
            version: nextVersion(after: nil)
        )
        if flavor == .node, let own = sent.version {
            stored.version = Data(own.utf8).base64EncodedString()
        }
        rows.append(stored)
        var response = item(201, stored)
        if flavor == .dotNet {
            response.headers["Location"] = request.address + "/" + Self.text(row["id"])
        }
        return response
    }

    private mutating func update(
        _ pathID: String?,
        _ request: OriginalRequest,
        _ now: Timestamp
    ) -> TransportResponse {
        let sent: Row
        switch body(request) {
        case .success(let row): sent = row
        case .failure(let rejection): return rejection.response
        }
        if let id = sent["id"], let pathID, Self.text(id) != pathID {
            return error(400, "The item ID and querystring ID did not match")
        }
        let id = pathID ?? Self.text(sent["id"])
        guard let place = place(of: id, includingDeleted: false) else { return missing }
        let expected = request.ifMatch ?? (flavor == .node ? sent.version : nil)
        if let rejection = stale(place, expected, request) { return rejection }
        let changes = payload(sent)
        if flavor == .node, changes.names.isEmpty {
            return error(500, "SQLITE_ERROR: near \"WHERE\": syntax error")
        }
        if let rejection = adopt(changes) { return rejection }
        var row = request.method == "PUT" ? ["id": .string(id)] : rows[place].row
        for (name, value) in typed(changes) { row[name] = value }
        rows[place].row = row
        touch(place, now)
        return item(200, rows[place])
    }

    private mutating func delete(
        _ id: String,
        _ request: OriginalRequest,
        _ now: Timestamp
    ) -> TransportResponse {
        guard let place = place(of: id, includingDeleted: false) else { return missing }
        if let rejection = stale(place, request.ifMatch, request) { return rejection }
        let answer = remove(place, now)
        return flavor == .node ? item(200, answer) : TransportResponse(status: 204)
    }

    private mutating func deleteMatches(
        _ request: OriginalRequest,
        _ now: Timestamp
    ) -> TransportResponse {
        guard let filter = request["$filter"],
            let expression = try? ODataParser.filter(filter, dialect: .v3)
        else { return error(500, "SQLITE_ERROR: near \"WHERE\": syntax error") }
        let ids = rows.filter { !$0.isDeleted && matches(expression, $0) }.map { $0.id() }
        let removed = ids.compactMap { place(of: $0, includingDeleted: false) }
        guard let first = removed.first else { return missing }
        return item(200, remove(first, now))
    }

    private mutating func remove(_ place: Int, _ now: Timestamp) -> Stored {
        guard definition.softDelete else { return rows.remove(at: place) }
        rows[place].isDeleted = true
        touch(place, now)
        return rows[place]
    }

    private mutating func undelete(
        _ id: String,
        _ request: OriginalRequest,
        _ now: Timestamp
    ) -> TransportResponse {
        guard let place = place(of: id, includingDeleted: true) else { return missing }
        if let rejection = stale(place, request.ifMatch, request) { return rejection }
        rows[place].isDeleted = false
        touch(place, now)
        return item(flavor == .node ? 201 : 200, rows[place])
    }

    // MARK: - Rows

    func place(of id: String, includingDeleted: Bool) -> Int? {
        rows.firstIndex { stored in
            (includingDeleted || !stored.isDeleted)
                && Self.text(stored.row["id"]).utf8.elementsEqual(id.utf8)
        }
    }

    private mutating func touch(_ place: Int, _ now: Timestamp) {
        rows[place].updatedAt = now
        rows[place].version = nextVersion(after: rows[place].version)
    }

    /// Returns the next version; Node counts versions per row, and SQL Server counts them for the
    /// whole database.
    private mutating func nextVersion(after version: String?) -> String {
        lastVersion += 1
        if flavor == .dotNet {
            let bytes = (0..<8).map { UInt8(truncatingIfNeeded: lastVersion >> (56 - $0 * 8)) }
            return Data(bytes).base64EncodedString()
        }
        let count = version.flatMap { Data(base64Encoded: $0) }
            .flatMap { Int(String(decoding: $0, as: UTF8.self)) }
        return Data(String((count ?? 0) + 1).utf8).base64EncodedString()
    }

    /// Returns the response to a write that expects a different version; nil if the version
    /// matches.
    private func stale(
        _ place: Int,
        _ expected: String?,
        _ request: OriginalRequest
    ) -> TransportResponse? {
        guard let expected else { return nil }
        if flavor == .dotNet {
            if request.headers["If-Match"] == "*" { return nil }
            guard Data(base64Encoded: expected) != nil else {
                return error(400, "The If-Match header is not a valid entity tag.")
            }
        }
        guard rows[place].version != expected else { return nil }
        return item(request.headers["If-Match"] == nil ? 409 : 412, rows[place])
    }

    // MARK: - Bodies

    private struct Rejection: Error {
        var response: TransportResponse
    }

    private func body(_ request: OriginalRequest) -> Result<Row, Rejection> {
        let row: Row
        switch OriginalJSON.body(request.body) {
        case .row(let body): row = body
        case .malformed(let text): return .failure(Rejection(response: error(400, text)))
        case .array:
            return .failure(Rejection(response: error(500, "0 is not a valid identifier.")))
        }
        guard flavor == .node else { return .success(row) }
        for name in ["createdAt", "updatedAt", "deleted"]
        where row.names.contains(where: { $0.lowercased() == name.lowercased() }) {
            return .failure(
                Rejection(
                    response: error(
                        400,
                        "Cannot update item with property '\(name)' as it is reserved"
                    )
                )
            )
        }
        return .success(row)
    }

    private func payload(_ sent: Row) -> Row {
        var row = Row()
        for (name, value) in sent where !Self.system.contains(name.lowercased()) {
            row[name] = value
        }
        return row
    }

    private static let system: Set<String> = [
        "id", "createdat", "updatedat", "version", "deleted",
    ]

    /// Creates columns for unknown members, or returns the response that rejects the members.
    private mutating func adopt(_ row: Row) -> TransportResponse? {
        for (name, value) in row where name != "id" {
            if case .json = value { return error(500, "Unsupported type: Object") }
            guard name.wholeMatch(of: /[A-Za-z_][A-Za-z0-9_]{0,127}/) != nil else {
                return error(500, "\(name) is not a valid identifier.")
            }
            guard columns[name] == nil, !value.isNull else { continue }
            guard flavor == .node else {
                return error(400, "The member '\(name)' could not be found.")
            }
            guard definition.dynamicSchema else {
                return error(
                    500,
                    "SQLITE_ERROR: table \(definition.name) has no column named \(name)"
                )
            }
            columns[name] = Self.type(of: value)
        }
        return nil
    }

    private static func type(of value: Value) -> OriginalServer.ColumnType {
        switch value {
        case .bool: .boolean
        case .integer, .number, .decimal: .number
        case .null, .string, .date, .data, .json: .string
        }
    }

    /// Returns the row in stored form: SQLite silently converts values of a different type.
    private func typed(_ row: Row) -> Row {
        var result = row
        for (name, value) in row where name != "id" {
            switch (columns[name], value) {
            case (.string, .integer), (.string, .number), (.string, .bool):
                result[name] = .string(Self.text(value))
            case (.boolean, .string(let text)): result[name] = .bool(!text.isEmpty)
            case (.boolean, .integer(let number)): result[name] = .bool(number != 0)
            case (.string, _), (.number, _), (.boolean, _), (.dateTime, _), (nil, _): break
            }
        }
        return result
    }

    static func text(_ value: Value?) -> String {
        switch value {
        case .string(let text): text
        case .integer(let number): String(number)
        case .number(let number): String(number)
        case .bool(let flag): flag ? "1" : "0"
        case .null, .decimal, .date, .data, .json, nil: ""
        }
    }
}
