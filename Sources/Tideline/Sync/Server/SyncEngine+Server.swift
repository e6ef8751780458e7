// What the store keeps of the server behind an endpoint, and the name that the store has there.

import TidelineCore

extension SyncEngine {
    /// Takes in what earlier runs learned of the server at this endpoint, and the store's own name.
    ///
    /// Where the store fails, the first is learned anew and requests have no name: what the app asks
    /// for next tells of the failure.
    func recallServer() async {
        guard let service = try? remote.get() else { return }
        let key = service.endpoint.key
        let known = try? await read { reader in
            (try reader.generation(key), try reader.takesGzip(key), try reader.installation())
        }
        guard let (generation, takesGzip, installation) = known else { return }
        service.generation.recall(generation)
        service.coding.recall(takesGzip)
        await name(service, installation)
    }

    /// Names the requests of the client by its store, which has a name from now on.
    private func name(_ service: RemoteService, _ known: String?) async {
        guard let make = environment.makeInstallationID else { return }
        if let known {
            service.installation.id = known
            return
        }
        // Another process may have named the file meanwhile.
        service.installation.id = try? await transaction { queue in
            if let known = try queue.reader.installation() { return known }
            let id = make()
            try queue.setInstallation(id)
            return id
        }
    }

    /// Keeps what was learned of the server for later runs.
    func keepServer() async throws {
        guard let service = try? remote.get() else { return }
        let key = service.endpoint.key
        let (generation, takesGzip) = (service.generation.unstored, service.coding.unstored)
        guard generation != nil || takesGzip != nil else { return }
        try await transaction { queue in
            if let generation { try queue.setGeneration(generation, key) }
            if let takesGzip { try queue.setTakesGzip(takesGzip, key) }
        }
        if let generation { service.generation.markStored(generation) }
        if let takesGzip { service.coding.markStored(takesGzip) }
    }
}

extension QueueReader {
    fileprivate static let installationKey = "installation"

    fileprivate static func gzipID(_ endpoint: String) -> Value { .string("gzip|\(endpoint)") }

    /// Whether the server behind an endpoint takes bodies as gzip.
    fileprivate func takesGzip(_ endpoint: String) throws -> Bool {
        try store.row(id: Self.gzipID(endpoint), in: SystemTables.config) != nil
    }

    /// The name of this store, where it has one that can be sent.
    fileprivate func installation() throws -> String? {
        let row = try store.row(id: .string(Self.installationKey), in: SystemTables.config)
        return row?["value"]?.text.flatMap { SharedInstallation.isName($0) ? $0 : nil }
    }
}

extension QueueTransaction {
    fileprivate func setTakesGzip(_ takes: Bool, _ endpoint: String) throws {
        let id = QueueReader.gzipID(endpoint)
        guard takes else {
            try store.delete(ids: [id], in: SystemTables.config)
            return
        }
        let row: Row = ["id": id, "key": "gzip", "keyType": 3, "table": "", "value": "true"]
        try store.put([row], in: SystemTables.config)
    }

    fileprivate func setInstallation(_ id: String) throws {
        let row: Row = [
            "id": .string(QueueReader.installationKey),
            "key": .string(QueueReader.installationKey), "keyType": 3, "table": "",
            "value": .string(id),
        ]
        try store.put([row], in: SystemTables.config)
    }
}
