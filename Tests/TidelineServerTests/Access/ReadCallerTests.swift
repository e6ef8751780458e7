// Callers without a token take turns by address, however many connections they have.

import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct ReadCallerTests {
    @Test("All connections of an address, or of an IPv6 network, count as one caller")
    func addresses() async throws {
        let stores = Stores()
        let server = try await TestServer(relay: { stores.relay($0) })
        for (address, connection) in [
            ("10.0.0.1", 1), ("10.0.0.1", 2), ("10.0.0.2", 1), ("2001:db8::1", 3),
            ("2001:db8::2", 4), ("2001:db8:0:1::1", 3), ("", 5),
        ] {
            var request = ServerRequest(method: "GET", path: "/tables/TodoItem")
            request.address = address
            request.connection = connection
            #expect(await server.handler.handle(request).status == 200)
        }
        let callers = stores.last?.callers ?? []
        #expect(callers.count == 7)
        #expect(callers[0] == callers[1] && callers[0] != callers[2])
        #expect(callers[3] == callers[4] && callers[3] != callers[5])
        #expect(callers[6] == .unknown)
    }

    private final class Stores: Sendable {
        private let created = Mutex<RelayedStore?>(nil)

        var last: RelayedStore? { created.withLock { $0 } }

        func relay(_ store: any TableStore) -> any TableStore {
            let relayed = RelayedStore(store)
            created.withLock { $0 = relayed }
            return relayed
        }
    }
}
