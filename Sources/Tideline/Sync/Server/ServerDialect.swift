// ServerDialect: how requests are written for one generation of server.
//
// What is asked is the same for both; this says in which words. docs/SYNC.md has the table.

package import TidelineCore

/// The words of one generation.
package enum ServerDialect: String, Sendable, Hashable, CaseIterable {
    /// Azure Mobile Apps 2.x: bare arrays, OData v3, pages by `$skip`, 404 for deleted rows.
    case classic
    /// Datasync and Tideline: envelopes, OData v4, next links, 410 for deleted rows.
    case datasync

    /// The value of `ZUMO-API-VERSION`.
    package var protocolVersion: String {
        switch self {
        case .classic: "2.0.0"
        case .datasync: "3.0.0"
        }
    }

    /// How filters and orders are written.
    package var odata: ODataDialect {
        switch self {
        case .classic: .v3
        case .datasync: .v4
        }
    }

    package var other: ServerDialect { self == .classic ? .datasync : .classic }

    /// How many rows a page of a list may be asked to have; nil for no bound.
    ///
    /// The original Node server refuses more than its `maxTop`, which is 1000 unless set.
    package var pageRowsMax: Int? { self == .classic ? 1000 : nil }

    /// What a cursor belongs to: rows of one generation say nothing about those of another.
    package func cursorScope(_ endpoint: String) -> String {
        self == .classic ? endpoint + " classic" : endpoint
    }
}
