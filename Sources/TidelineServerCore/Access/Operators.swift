// Operators: the users with access to the whole server, by the `sub` of their tokens, and the key with which a
// scraper may read the metrics and nothing else. Both may change while the server runs.

import Synchronization
import TidelineCore

/// The list of users who are operators.
package final class Operators: Sendable {
    private let names: Mutex<[String]?>

    /// Creates a list; nil means that no list is configured.
    package init(_ names: [String]? = nil) {
        self.names = Mutex(names)
    }

    /// Replaces the list.
    package func become(_ names: [String]?) {
        self.names.withLock { $0 = names }
    }

    /// Whether a list is configured, even an empty one.
    var areListed: Bool { names.withLock { $0 != nil } }

    /// Compares bytes, because strings that are equal in Swift may belong to different users.
    func contains(_ user: User) -> Bool {
        names.withLock { names in
            names?.contains { $0.utf8.elementsEqual(user.id.utf8) } ?? false
        }
    }
}

/// The key that a metrics scraper sends.
package final class ScrapeKey: Sendable {
    private let key: Mutex<[UInt8]?>

    package init(_ key: [UInt8]? = nil) {
        self.key = Mutex(key)
    }

    /// Replaces the key.
    package func become(_ key: [UInt8]?) {
        self.key.withLock { $0 = key }
    }

    var isSet: Bool { key.withLock { $0 != nil } }

    /// Whether the request has the key as its bearer token.
    ///
    /// The comparison takes the same time for every wrong key.
    func isShown(by headers: HTTPFields) -> Bool {
        guard let key = key.withLock({ $0 }), let field = headers["Authorization"],
            let shown = Authenticator.bearer(field)
        else { return false }
        let bytes = Array(shown.utf8)
        guard bytes.count == key.count else { return false }
        return zip(bytes, key).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
