// AnswerProof: decides whether a response is proven to come from the server, and not from a proxy,
// a firewall or a login page. Pure; the rules are in docs/gateways-and-servers.md.

import Foundation
import TidelineCore

/// The header fields and features by which the server of an endpoint was recognized.
///
/// Later responses are compared with these signs.
package struct ServerSigns: OptionSet, Sendable, Hashable {
    package let rawValue: Int

    package init(rawValue: Int) { self.rawValue = rawValue }

    /// Lists have `Tideline-Epoch`.
    package static let epoch = ServerSigns(rawValue: 1)
    /// Responses have `x-zumo-server-version`, like the responses of the original Node and .NET
    /// servers.
    package static let zumoVersion = ServerSigns(rawValue: 2)
    /// The server responded to a batch with a batch response.
    package static let batches = ServerSigns(rawValue: 4)
    /// The server sent a stream of events.
    package static let events = ServerSigns(rawValue: 8)
    /// Responses have a header field that only Tideline servers send.
    package static let tideline = ServerSigns(rawValue: 16)
    /// The server is the original Node server.
    package static let node = ServerSigns(rawValue: 32)

    private static let names: [(ServerSigns, String)] = [
        (.epoch, "epoch"), (.zumoVersion, "zumoVersion"), (.batches, "batches"),
        (.events, "events"), (.tideline, "tideline"), (.node, "node"),
    ]

    /// Parses the stored signs; unknown words are ignored.
    package init(text: String) {
        let words = Set(text.split(separator: " ").map(String.init))
        self = Self.names.reduce(into: []) { signs, pair in
            if words.contains(pair.1) { signs.insert(pair.0) }
        }
    }

    /// The signs as words, separated by spaces.
    package var text: String {
        Self.names.filter { contains($0.0) }.map(\.1).joined(separator: " ")
    }

    /// The signs that are in a response.
    package init(of response: TransportResponse) {
        self = []
        if response.headers["Tideline-Epoch"] != nil { insert(.epoch) }
        if AnswerProof.namesTideline(response.headers) { insert(.tideline) }
        let original = response.headers["x-zumo-server-version"]?.lowercased()
        if original?.hasPrefix("node-") == true { insert(.node) }
        if AnswerProof.namesOriginalServer(response.headers) { insert(.zumoVersion) }
    }
}

/// A check of whether a response is proven to come from the server.
package enum AnswerProof {
    /// Returns whether a response without a row certainly comes from the server.
    ///
    /// The proof is a header field that only servers of tables send, or a problem body (RFC 9457)
    /// whose status is the status of the response. A response with a row is proven by the row's id
    /// and version.
    package static func isServers(_ response: TransportResponse) -> Bool {
        hasServerField(response.headers) || isProblem(response)
    }

    /// Returns whether the server asks the user to sign in; false for a 401 of a proxy or a login
    /// page.
    ///
    /// With a 401, the Datasync servers send only the challenge of RFC 6750.
    package static func wantsSignIn(_ response: TransportResponse) -> Bool {
        response.status == 401 && (isServers(response) || hasBearerChallenge(response.headers))
    }

    /// Returns whether the server asks the user to sign in, for a response whose body has not been
    /// read.
    package static func wantsSignIn(status: Int, headers: HTTPFields) -> Bool {
        let type = headers["Content-Type"]?.lowercased() ?? ""
        return status == 401
            && (hasServerField(headers) || hasBearerChallenge(headers)
                || type.hasPrefix("application/problem+json"))
    }

    /// Returns whether a page of rows is accepted as a page of the server.
    ///
    /// A captive portal may send an empty page. An empty page is therefore accepted only if it has
    /// the header field that all pages of this endpoint have. `hasRows` is true if a row has an id
    /// and a version, unlike the rows of other lists. `hasEpoch` is true if earlier pages of the
    /// same pull had an epoch.
    package static func isServersPage(
        headers: HTTPFields,
        hasRows: Bool,
        signs: ServerSigns,
        hasEpoch: Bool = false
    ) -> Bool {
        if hasRows || hasServerField(headers) { return true }
        return !hasEpoch && signs.isDisjoint(with: [.epoch, .zumoVersion])
    }

    /// Returns whether `x-zumo-server-version` has a value that the original servers are known to
    /// send.
    package static func namesOriginalServer(_ headers: HTTPFields) -> Bool {
        let version = headers["x-zumo-server-version"]?.lowercased() ?? ""
        return version.hasPrefix("node-") || version.hasPrefix("net-")
    }

    /// Returns whether the response has a header field that only Tideline servers send.
    package static func namesTideline(_ headers: HTTPFields) -> Bool {
        headers["Tideline-Epoch"] != nil || headers["Tideline-Horizon"] != nil
            || headers[SharedSchema.field] != nil
    }

    private static func hasServerField(_ headers: HTTPFields) -> Bool {
        namesOriginalServer(headers) || headers["Repeatability-Result"] != nil
            || namesTideline(headers)
    }

    private static func hasBearerChallenge(_ headers: HTTPFields) -> Bool {
        headers["WWW-Authenticate"]?.lowercased().hasPrefix("bearer") ?? false
    }

    /// Returns whether the body is a problem document that has the status of the response.
    ///
    /// Gateways also send objects with a `status`. If the media type is not that of problem
    /// documents, the object must therefore also have a `title` or a `detail`.
    private static func isProblem(_ response: TransportResponse) -> Bool {
        guard let row = RowText.row(response.body, nil), let status = row["status"],
            case .integer(Int64(response.status)) = status
        else { return false }
        let type = response.headers["Content-Type"]?.lowercased() ?? ""
        return type.hasPrefix("application/problem+json") || row["title"]?.text != nil
            || row["detail"]?.text != nil
    }
}
