// SharedSchema: the last `Tideline-Schema` of a client's server.

import Synchronization
import TidelineCore

/// The name of the server's schema in the server's last response.
final class SharedSchema: Sendable {
    private let state = Mutex<String?>(nil)

    /// The `Tideline-Schema` of the last response; nil before the first response, or if the server
    /// sends none.
    var name: String? { state.withLock { $0 } }

    func learn(_ response: TransportResponse) {
        guard let name = response.headers[Self.field] else { return }
        state.withLock { $0 = name }
    }

    static let field = "Tideline-Schema"
}
