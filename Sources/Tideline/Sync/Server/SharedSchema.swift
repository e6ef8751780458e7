// SharedSchema: the tables, columns and permissions that the server has, as its last answer named them.

import Synchronization
import TidelineCore

final class SharedSchema: Sendable {
    private let state = Mutex<String?>(nil)

    /// The `Tideline-Schema` of the last answer; nil before the first one, and of servers that send none.
    var name: String? { state.withLock { $0 } }

    func learn(_ response: TransportResponse) {
        guard let name = response.headers[Self.field] else { return }
        state.withLock { $0 = name }
    }

    static let field = "Tideline-Schema"
}
