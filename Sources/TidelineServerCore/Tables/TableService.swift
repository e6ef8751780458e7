// TableService: the tables of a server with their store, shared by all routes.

import TidelineCore

/// The settings for requests on tables.
package struct ServerSettings: Sendable {
    package var tables: [TableDefinition] = []
    /// Whether tables and columns are created from incoming rows.
    package var dynamicSchema = false
    /// The server's address as callers use it, without a trailing slash.
    package var publicURL: String?
    /// The scheme of addresses that do not specify one.
    package var scheme = "http"
    /// Whether `/metrics` answers callers without a token.
    package var exposesMetrics = true
    /// The users who may read `/metrics` from any address.
    package var operators = Operators()
    /// The key for `/metrics`; if it is set, only operators and callers with the key may read the metrics.
    package var scrapeKey = ScrapeKey()
    /// Returns when the server's certificate expires, in seconds since 1970; nil if that is not known.
    package var certificateEnd: @Sendable () -> Int? = { nil }
    /// Returns when the last backup was made, in seconds since 1970; nil if that is not known.
    package var lastBackup: @Sendable () -> Int? = { nil }
    /// Measures memory, processor time, descriptors and disk.
    package var processUse: @Sendable () -> ProcessUse = { ProcessUse() }
    /// The limits that the metrics contain, for alerts.
    package var bounds = ServerMetrics.Bounds()
    /// The authenticator; nil if callers have no tokens.
    package var authenticator: Authenticator?
    /// The rules for web pages; nil if none may call the server.
    package var crossOrigin: CrossOrigin?
    /// The hooks by table.
    package var hooks: [String: TableHooks] = [:]
    /// The routes under `/api`.
    package var endpoints: [Endpoint] = []
    /// The page for operators; nil if it is disabled.
    package var dashboard: Dashboard?
    package var log = ServerLog.silent
    package var limits = ServerLimits()
    package var traffic = ServerTraffic()
    package var environment = ServerEnvironment.live

    package init(tables: [TableDefinition] = [], dynamicSchema: Bool = false) {
        self.tables = tables
        self.dynamicSchema = dynamicSchema
    }
}

/// The tables of a server with their store and settings, with which routes answer requests.
package final class TableService: Sendable {
    package let settings: ServerSettings
    package let store: any TableStore
    package let catalog: TableCatalog
    package let metrics = ServerMetrics()
    let plans = ListPlans()
    let phase = ServerPhase()
    let callers: CallerGate
    let access: AccessRules
    let epochs: EpochMemory

    /// Prepares the tables in the store, and creates the service.
    ///
    /// - Throws: ``SchemaError``, including for access rules that the server cannot check.
    package init(_ settings: ServerSettings, store: any TableStore) async throws {
        var settings = settings
        let hasAuthentication = settings.authenticator != nil
        for place in settings.tables.indices {
            settings.tables[place].completeOwner()
            let table = settings.tables[place]
            if let (key, fault) = table.accessFaults(hasAuthentication: hasAuthentication).first {
                throw SchemaError("Table '\(table.name)', \(key): \(fault).")
            }
            if let fault = DefinitionRules.fault(of: table) {
                throw SchemaError("Table '\(table.name)', \(fault).")
            }
            let hooks = settings.hooks.first { SchemaPlan.isSame($0.key, table.name) }?.value
            if table.tombstones == .bare, hooks?.rowFilter != nil {
                throw SchemaError(
                    "Table '\(table.name)', tombstones: 'bare' cannot be combined with a row filter, "
                        + "because the change log then stores whole rows."
                )
            }
        }
        try Self.checkReferences(&settings.tables)
        callers = CallerGate(settings)
        self.settings = settings
        self.store = store
        catalog = TableCatalog(
            defaultAccess: hasAuthentication ? .authenticated : .anonymous,
            hooks: settings.hooks
        )
        access = AccessRules(
            catalog: catalog,
            accessOfNewTables: settings.dynamicSchema && hasAuthentication
                ? .authenticated : .anonymous
        )
        let filtered = Set(
            settings.hooks.filter { $1.rowFilter != nil }.keys.map { $0.lowercased() }
        )
        let stored = try await store.prepare(
            settings.tables,
            filtered: filtered,
            isComplete: !settings.dynamicSchema
        )
        epochs = EpochMemory("")
        store.watchEpoch { [epochs] in epochs.learn($0) }
        epochs.learn(try await store.epoch())
        try await store.watch { [events = settings.traffic.events] in events.changed($0) }
        if settings.dynamicSchema {
            for definition in stored { catalog.put(definition) }
        } else {
            for var definition in settings.tables {
                let found = stored.first { SchemaPlan.isSame($0.name, definition.name) }
                definition.form = found?.form
                definition.databaseDefaults =
                    found?.databaseDefaults(for: definition.schema.columns) ?? [:]
                definition.foreignKeyColumns = found?.foreignKeyColumns ?? []
                definition.references = ReferenceRules.extended(
                    definition,
                    by: found?.references ?? []
                )
                catalog.put(definition)
            }
        }
        try await store.continueCascades { [catalog] in catalog.references }
    }

    /// The epoch of the database, which is in every list.
    package var epoch: String { epochs.current.name }

    /// Returns the clock of the table, and records its epoch.
    func clock(of table: Table) async throws -> TableClock {
        let clock = try await store.clock(of: table)
        epochs.learn(clock)
        return clock
    }

    /// Returns the answer to a failed request; an error that is not a rejection is logged.
    func rejection(_ error: any Error, of requestID: String) -> ServerResponse {
        if let error = error as? ServerError {
            if error.isConstraint {
                settings.log.write(
                    .info,
                    "a constraint of the database rejected a row",
                    [
                        "request": requestID, "code": error.code?.rawValue ?? "",
                        "cause": error.message,
                    ]
                )
            }
            return ServerResponse(error)
        }
        if error is CancellationError { return ServerResponse(.cancelled) }
        if error is OutdatedTable { return ServerResponse(.tableChanging) }
        settings.log.write(
            .error,
            "request failed",
            ["request": requestID, "cause": "\(error)"]
        )
        return ServerResponse(.failed)
    }

    /// Rejects with 503 if a write would not be accepted.
    func checkReady() async throws {
        if phase.isDraining { throw ServerError.stopping }
        try await store.checkWritable()
    }

    /// Returns the table, or throws a 404.
    func table(named name: String, _ grown: GrownTables = GrownTables()) throws -> Table {
        guard let table = grown.table(named: name) ?? catalog.table(named: name) else {
            throw ServerError.noSuchTable
        }
        return table
    }

    /// Returns the table; if it does not exist and the schema is dynamic, the table that the insert will
    /// create.
    func tableForInsert(named name: String, _ grown: GrownTables) throws -> Table {
        if let table = grown.table(named: name) ?? catalog.table(named: name) { return table }
        guard settings.dynamicSchema else { throw ServerError.noSuchTable }
        if let fault = TableDefinition.nameFault(name) {
            throw ServerError.badRequest("The table name is not valid: \(fault).")
        }
        return catalog.table(of: TableDefinition(name), from: nil)
    }

    /// Reads a JSON Patch.
    func patch(_ bytes: [UInt8], for table: Table) throws -> JSONPatch {
        guard bytes.count <= settings.limits.rowBytes else {
            throw ServerError.rowTooLarge(settings.limits.rowBytes)
        }
        return try JSONPatch(bytes, for: table, stepsMax: settings.limits.patchSteps)
    }

    /// Reads the body of a write.
    ///
    /// Unknown members are rejected with 400; with a dynamic schema, they are columns of the returned table,
    /// which the write will add.
    func body(_ bytes: [UInt8], for table: Table) throws -> (RowBody, Table) {
        guard bytes.count <= settings.limits.rowBytes else {
            throw ServerError.rowTooLarge(settings.limits.rowBytes)
        }
        let body = try RowBody.read(bytes, for: table)
        guard let first = body.unknown.first else { return (body, table) }
        guard settings.dynamicSchema else { throw Self.unknownMember(first) }
        let added = try body.unknown.compactMap(Self.column)
        guard !added.isEmpty else { return (body, table) }
        var definition = table.definition
        definition.schema.columns += added
        // The limits are checked before a table with this many columns is built in memory.
        let rejection = ServerError.growth(
            of: definition,
            isNew: false,
            tables: 0,
            settings.limits
        )
        if let rejection { throw rejection }
        let extended = catalog.table(of: definition, from: table.storedForm)
        return (try RowBody.read(bytes, for: extended), extended)
    }

    private static func unknownMember(_ member: RowBody.Unknown) -> ServerError {
        TableDefinition.columnFault(member.name) == nil
            ? .badRequest("The table has no column '\(member.name)'.")
            : .badRequest("The body has a member for which the table has no column.")
    }

    private static func column(_ member: RowBody.Unknown) throws -> ColumnDefinition? {
        guard let type = member.type else { return nil }
        if let fault = TableDefinition.newColumnFault(member.name) {
            throw ServerError.badRequest("The name of a new member is not valid: \(fault).")
        }
        guard type != .json else {
            throw ServerError.badRequest(
                "Member '\(member.name)': objects and arrays require a declared column of type json."
            )
        }
        return ColumnDefinition(member.name, type)
    }

    // MARK: - Routes

    var tables: TableRoutes { TableRoutes(service: self) }
    var lists: ListRoutes { ListRoutes(service: self) }
    var schemas: SchemaRoute { SchemaRoute(service: self) }
    var digests: DigestRoute { DigestRoute(service: self) }
    var writes: WriteRoutes { WriteRoutes(service: self) }
    var eventStreams: EventRoutes { EventRoutes(service: self) }
    var endpoints: EndpointRoutes { EndpointRoutes(service: self) }
    var readHooks: ReadHooks { ReadHooks(log: settings.log) }
    var answers: TableAnswers { TableAnswers(service: self) }
    var pages: AnswerPages { AnswerPages(service: self) }
}
