// SharedSchema: the server's schema, as named in its last response.

import Synchronization
import TidelineCore

final class SharedSchema: Sendable {
    private let state = Mutex<String?>(nil)

    /// The `Tideline-Schema` of the last response; nil before the first one, and for servers that send none.
    var name: String? { state.withLock { $0 } }

    func learn(_ response: TransportResponse) {
        guard let name = response.headers[Self.field] else { return }
        state.withLock { $0 = name }
    }

    static let field = "Tideline-Schema"
}
