// ServerDialect: the syntax in which requests are written for one generation of servers.
//
// Requests to both generations are the same; only their syntax differs. The table is in
// docs/gateways-and-servers.md.

package import TidelineCore

/// The syntax of requests to one generation of servers.
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

    /// The grammar of filters and sort orders.
    package var odata: ODataDialect {
        switch self {
        case .classic: .v3
        case .datasync: .v4
        }
    }

    package var other: ServerDialect { self == .classic ? .datasync : .classic }

    /// The maximum number of rows that may be requested for a page of a list; nil if there is no
    /// limit.
    ///
    /// The original Node server rejects requests for more rows than its `maxTop`, which is 1000 by
    /// default.
    package var pageRowsMax: Int? { self == .classic ? 1000 : nil }

    /// Returns the scope of a cursor, because a cursor of one generation is not valid for the
    /// other.
    package func cursorScope(_ endpoint: String) -> String {
        self == .classic ? endpoint + " classic" : endpoint
    }
}
