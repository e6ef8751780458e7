// SchemaRoute: the route GET /$schema, which returns the tables that the caller may read, with their rules.

package import TidelineCore

/// The route of the schema document.
struct SchemaRoute {
    let service: TableService

    /// Answers with the tables that the caller may read.
    ///
    /// - Throws: A 401 if a token is all that the caller lacks for any table.
    func schema(_ call: TableCall) throws -> ServerResponse {
        guard call.isRead else { throw ServerError.methodNotAllowed("GET, HEAD") }
        let all = service.catalog.all
        let tables = all.filter { service.access.mayRead($0, call.user) }
        if tables.isEmpty, call.user == nil,
            all.contains(where: { $0.definition.permissions.read == .authenticated })
        {
            throw ServerError.notSignedIn
        }
        let document = service.catalog.document(of: tables)
        var headers: HTTPFields = [
            "Content-Type": "application/json; charset=utf-8",
            "ETag": document.tag,
            "Cache-Control": "private, no-cache",
            "Vary": "Authorization, X-ZUMO-AUTH",
        ]
        if let tags = call.head.conditions.ifNoneMatch, Self.isNamed(document.tag, in: tags) {
            headers["Content-Type"] = nil
            return ServerResponse(status: 304, headers: headers)
        }
        return ServerResponse(status: 200, headers: headers, body: document.body)
    }

    /// Returns whether a list of entity tags has this one (RFC 9110, 13.1.2, compares weakly).
    private static func isNamed(_ tag: String, in list: String) -> Bool {
        list.split(separator: ",").contains { part in
            var text = part.drop { $0 == " " || $0 == "\t" }
            while let last = text.last, last == " " || last == "\t" { text.removeLast() }
            if text == "*" { return true }
            if text.hasPrefix("W/") { text = text.dropFirst(2) }
            return text == tag
        }
    }
}

/// The schema document of the tables that a caller may read, as it is sent.
struct SchemaAnswer: Sendable {
    let body: [UInt8]
    /// The entity tag, with its quotation marks.
    let tag: String

    /// Writes the document of these tables, without references to other tables.
    init(_ tables: [Table]) {
        let names = Set(tables.map { $0.name.lowercased() })
        let document = SchemaDocument(
            tables.map { table in
                var definition = table.definition
                definition.references.removeAll { !names.contains($0.table.lowercased()) }
                return SchemaDocument.Table(definition)
            }
        )
        body = document.bytes()
        // The order of columns is part of the body but not of the fingerprint.
        tag = "\"" + SchemaDocument.tag(of: body) + "\""
    }
}

extension SchemaDocument.Table {
    /// A table as other sides see it.
    package init(_ definition: TableDefinition) {
        self.init(definition.schema, references: definition.references, owner: definition.owner)
    }
}
