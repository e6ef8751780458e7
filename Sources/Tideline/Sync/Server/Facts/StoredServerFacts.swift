// StoredServerFacts: the facts about an endpoint's server, and the installation id, which
// MS_TableConfig stores.

import Foundation
import TidelineCore

extension QueueReader {
    /// The stored facts about servers.
    var serverFacts: StoredServerFacts { StoredServerFacts(reader: self) }
}

extension QueueTransaction {
    /// The writer of the stored facts about servers.
    var serverFacts: ServerFactChanges { ServerFactChanges(queue: self) }
}

/// A reader of the facts about servers that the store keeps between runs of the app.
struct StoredServerFacts {
    let reader: QueueReader

    fileprivate static let installationKey = "installation"
    fileprivate static let fileKey = "file"

    fileprivate static func id(_ fact: String, _ endpoint: String) -> Value {
        .string("\(fact)|\(endpoint)")
    }

    private func value(_ id: Value) throws -> String? {
        try reader.store.row(id: id, in: SystemTables.config)?["value"]?.text
    }

    /// Returns the identifier that the store's file had when the store was last opened.
    func fileIdentity() throws -> String? {
        try reader.config("", Self.fileKey, PullCursor.fileIdentityType)
    }

    /// Returns the installation id of this store, if it is valid in a header field.
    func installation() throws -> String? {
        try value(.string(Self.installationKey)).flatMap {
            SharedInstallation.isName($0) ? $0 : nil
        }
    }

    /// Returns the generation of the server that last responded at an endpoint.
    func generation(_ endpoint: String) throws -> ServerDialect? {
        try reader.config("", endpoint, PullCursor.generationType)
            .flatMap(ServerDialect.init(rawValue:))
    }

    /// Returns whether the server of an endpoint accepts bodies that are compressed with gzip.
    func takesGzip(_ endpoint: String) throws -> Bool {
        try reader.store.row(id: Self.id("gzip", endpoint), in: SystemTables.config) != nil
    }

    /// Returns the signs of the server of an endpoint.
    func signs(_ endpoint: String) throws -> ServerSigns {
        ServerSigns(text: try value(Self.id("signs", endpoint)) ?? "")
            .union(try isNoted("batchTaken", endpoint) ? .batches : [])
    }

    /// Returns whether the server of an endpoint has ever shown a sign.
    ///
    /// If the server has accepted a batch, a later 404 comes from a proxy. If it has sent
    /// `Repeatability-Result`, a successful response without that field comes from a proxy.
    func isNoted(_ sign: String, _ endpoint: String) throws -> Bool {
        try reader.store.row(id: Self.id(sign, endpoint), in: SystemTables.config) != nil
    }

    /// Returns the time before which no batch is sent to the server of an endpoint.
    func batchesRejected(_ endpoint: String) throws -> Date? {
        try value(Self.id("batch", endpoint)).flatMap { Timestamp($0)?.date }
    }

    /// Returns the wait that the server of an endpoint asked for, in its stored form.
    func busyPeriod(_ endpoint: String) throws -> String? {
        try value(Self.id("busy", endpoint))
    }

    /// Returns the schedule for resending parked operations to a server that does not send
    /// `Tideline-Schema`.
    fileprivate func parkedSchedule(_ endpoint: String) throws -> ParkedSchedule? {
        try value(Self.id("parked", endpoint)).flatMap(ParkedSchedule.init)
    }
}

/// A writer of the facts about servers that the store keeps between runs of the app.
struct ServerFactChanges {
    let queue: QueueTransaction

    private func put(_ value: String, id: Value, key: String) throws {
        let row: Row = [
            "id": id, "key": .string(key), "keyType": 3, "table": "", "value": .string(value),
        ]
        try queue.store.put([row], in: SystemTables.config)
    }

    private func set(_ fact: String, to value: String?, _ endpoint: String) throws {
        let id = StoredServerFacts.id(fact, endpoint)
        if let value {
            try put(value, id: id, key: fact)
        } else {
            try queue.store.delete(ids: [id], in: SystemTables.config)
        }
    }

    /// Stores the identifier of the store's file.
    func setFileIdentity(_ identity: String) throws {
        let key = StoredServerFacts.fileKey
        _ = try queue.setConfig(identity, "", key, PullCursor.fileIdentityType)
    }

    /// Stores the installation id of this store.
    func setInstallation(_ id: String) throws {
        let key = StoredServerFacts.installationKey
        try put(id, id: .string(key), key: key)
    }

    /// Removes the installation id of a store that is a copy, and flags its operations as
    /// inherited.
    ///
    /// - Returns: The number of operations in the queue.
    func becomeAnotherInstallation() throws -> Int {
        let id = Value.string(StoredServerFacts.installationKey)
        try queue.store.delete(ids: [id], in: SystemTables.config)
        let operations = try queue.reader.operations()
        for var operation in operations where !operation.isInherited && operation.damage == nil {
            operation.isInherited = true
            try queue.put(operation)
        }
        return operations.count
    }

    /// Stores the generation of the server at an endpoint.
    func setGeneration(_ dialect: ServerDialect, _ endpoint: String) throws {
        _ = try queue.setConfig(dialect.rawValue, "", endpoint, PullCursor.generationType)
    }

    /// Stores whether the server of an endpoint accepts bodies that are compressed with gzip.
    func setTakesGzip(_ takes: Bool, _ endpoint: String) throws {
        try set("gzip", to: takes ? "true" : nil, endpoint)
    }

    /// Stores the signs of the server of an endpoint.
    func setSigns(_ signs: ServerSigns, _ endpoint: String) throws {
        try set("signs", to: signs.text, endpoint)
    }

    /// Stores that the server of an endpoint has shown a sign.
    func note(_ sign: String, _ endpoint: String) throws { try set(sign, to: "true", endpoint) }

    /// Stores the time before which no batch is sent to the server of an endpoint.
    func setBatchesRejected(_ endpoint: String, until: Date) throws {
        try set("batch", to: Timestamp(until).text, endpoint)
    }

    /// Stores the wait that the server of an endpoint asked for; nil removes it.
    func setBusyPeriod(_ period: BusyPeriod?, _ endpoint: String) throws {
        try set("busy", to: period?.text, endpoint)
    }

    /// Returns whether parked operations are due for a server that does not send `Tideline-Schema`.
    ///
    /// If `isWanted` is true and the store has no schedule, a schedule begins.
    func isParkedDue(_ endpoint: String, at now: Date, isWanted: Bool) throws -> Bool {
        guard isWanted else { return false }
        let schedule = try queue.reader.serverFacts.parkedSchedule(endpoint)
        let isDue = schedule?.isDue(at: now) ?? false
        guard schedule == nil || isDue else { return false }
        let next = schedule?.after(now) ?? ParkedSchedule(from: now)
        try set("parked", to: next.text, endpoint)
        return isDue
    }
}
