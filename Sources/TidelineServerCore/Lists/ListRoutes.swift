// ListRoutes: lists of a table, and the changes after a list: request -> plan -> page -> links.
//
//     list          S := the table's clock, then the first page
//     its pages     carry S in their links
//     its end       a link to the changes after S: rows that changed while pages were read come again
//     the changes   in the order of the commits; a page ends at the timestamp of its last change
//     their end     a link to the changes after the clock of the state that was read
//
// A row that is written gets a new commit timestamp, after all reported changes: no page misses it.

import TidelineCore

/// The data that all pages of a list with change tracking share.
private struct ChangeTracking {
    var scope: DeltaScope
    /// The table's last commit timestamp before the first page.
    var timestamp: Int64

    func token(_ phase: DeltaToken.Phase) -> DeltaToken {
        DeltaToken(phase, scope, timestamp: timestamp)
    }
}

/// The routes of lists and of the changes after a list.
struct ListRoutes {
    let service: TableService

    func list(_ call: TableCall, _ name: String) async throws -> ServerResponse {
        guard let table = service.catalog.table(named: name) else {
            guard service.settings.dynamicSchema, TableDefinition.nameFault(name) == nil else {
                throw ServerError.noSuchTable
            }
            return try emptyList(call, name, nil)
        }
        let link = try deltaToken(call)
        if let link, link.phase == .changes { return try await changes(call, table, link) }
        let isTracked =
            link != nil || call.generation == .datasync && call.head.preferences.tracksChanges
        guard var plan = try plan(call, table, isTracked: isTracked) else {
            // The column that the query names may exist by now, in which case this throws.
            let clock = try await service.clock(of: table)
            try await service.readHooks.before(call, table, nil)
            let answer = try emptyList(call, name, clock)
            await service.readHooks.after(call, table, nil, rows: 0)
            return answer
        }
        // Plans are kept by the text of the query, for all users.
        let view = try await table.callerView(for: call.user, at: call.now)
        plan.request.view = view.condition
        plan.request.caller = call.caller
        try await service.readHooks.before(call, table, nil)
        var tracking: ChangeTracking?
        if isTracked { tracking = try await self.tracking(link, table, plan, view) }
        if isTracked && tracking == nil {
            plan.request.includesDeleted = call.includesDeleted
            plan.request.rendering = nil
        }
        let (page, share) = try await service.pages.makePage(
            of: plan.request.rowsMax,
            in: table
        ) { reservation in
            plan.request.reservation = reservation
            return try await service.store.list(plan.request, in: table)
        }
        table.pageSize.record(rows: page.rows, bytes: page.bytes.count)
        await service.readHooks.after(call, table, nil, rows: page.rows)
        // Read after the page, so that tombstones that were purged before the page was read are accounted for.
        let clock =
            if let known = page.clock {
                known
            } else {
                try await service.clock(of: table)
            }
        let epoch = service.epochs.learn(clock)
        if let tracking {
            if tracking.scope.epoch != epoch.fingerprint { throw ServerError.epochChanged }
            if clock.horizon > tracking.timestamp { throw ServerError.deltaExpired(clock) }
        }
        var links = ListLinks()
        links.next = plan.nextParameters(
            after: page,
            of: call.parameters,
            token: tracking?.token(.list)
        )
        if links.next == nil {
            links.delta = tracking.map { call.parameters.link($0.token(.changes)) }
        }
        var answer = service.answers.list(call, table.name, page, links, clock)
        answer.share = share
        answer.applies(call, plan.pageSizeApplied, tracksChanges: tracking != nil)
        return answer
    }

    /// Returns an empty list for a table or a column that a dynamic schema does not have yet.
    ///
    /// `clock` is the table clock; nil if the table does not exist.
    private func emptyList(
        _ call: TableCall,
        _ name: String,
        _ clock: TableClock?
    ) throws -> ServerResponse {
        let options = try ListOptions(call.parameters, generation: call.generation)
        let page = ListPlan.emptyPage(options, call.generation)
        return service.answers.list(call, name, page, ListLinks(), clock)
    }

    /// Returns the plan of a list; nil if no row can match.
    private func plan(_ call: TableCall, _ table: Table, isTracked: Bool) throws -> ListPlan? {
        let query = ListPlans.Query(
            table: ObjectIdentifier(table),
            text: call.request.query,
            generation: call.generation,
            pageSizeWanted: call.head.preferences.pageSize,
            // A device without rows needs no tombstones; later deletes are reported as removals.
            includesDeleted: call.includesDeleted && !isTracked
        )
        if let known = service.plans.plan(query) { return known }
        let plan = try ListPlan(
            try ListOptions(call.parameters, generation: call.generation),
            table: table,
            generation: call.generation,
            pageSizeWanted: query.pageSizeWanted,
            limits: service.settings.limits,
            isDynamic: service.settings.dynamicSchema,
            now: call.now
        )
        guard var plan else { return nil }
        plan.request.includesDeleted = query.includesDeleted
        if !isTracked || plan.canTrackChanges { service.plans.keep(&plan, for: query, of: table) }
        return plan
    }

    // MARK: - Changes

    /// Returns the token of a delta link, or of a page of a list that ends with one; nil if the request has no token.
    private func deltaToken(_ call: TableCall) throws -> DeltaToken? {
        guard call.generation == .datasync else { return nil }
        let texts = call.parameters.values("$deltatoken")
        guard let text = texts.first else { return nil }
        guard texts.count == 1, let token = DeltaToken(text) else {
            throw ServerError.notADeltaLink
        }
        return token
    }

    /// Returns the scope of the delta links for a visibility filter.
    private func scope(_ table: Table, _ view: CallerView) -> DeltaScope {
        DeltaScope(
            epoch: service.epochs.current.fingerprint,
            schema: table.fingerprint,
            view: view.fingerprint
        )
    }

    /// Returns nil if changes cannot be tracked, in which case the preference is not applied.
    private func tracking(
        _ link: DeltaToken?,
        _ table: Table,
        _ plan: ListPlan,
        _ view: CallerView
    ) async throws -> ChangeTracking? {
        let canTrackChanges = plan.canTrackChanges && !view.dependsOnTime
        guard let link else {
            guard canTrackChanges else { return nil }
            let timestamp = try await service.clock(of: table).timestamp
            return ChangeTracking(scope: scope(table, view), timestamp: timestamp)
        }
        let scope = scope(table, view)
        if let rejection = scope.rejection(of: link.scope) { throw rejection }
        guard canTrackChanges else { throw ServerError.notADeltaLink }
        return ChangeTracking(scope: scope, timestamp: link.timestamp)
    }

    /// Returns a page of the changes after a link.
    private func changes(
        _ call: TableCall,
        _ table: Table,
        _ link: DeltaToken
    ) async throws -> ServerResponse {
        let view = try await table.callerView(for: call.user, at: call.now)
        try await service.readHooks.before(call, table, nil)
        let scope = scope(table, view)
        if let rejection = scope.rejection(of: link.scope) { throw rejection }
        // The plan is made before the server knows whether there are changes, so that an invalid link is always
        // rejected.
        guard let plan = try plan(call, table, isTracked: true), plan.canTrackChanges,
            plan.options.token == nil
        else { throw ServerError.notADeltaLink }
        let known = try await service.clock(of: table)
        if service.epochs.current.fingerprint != scope.epoch { throw ServerError.epochChanged }
        if known.timestamp == link.timestamp {
            return await nothingNew(call, table, plan, known)
        }
        var request = plan.changes(
            after: link.timestamp,
            view: view.condition,
            limits: service.settings.limits
        )
        request.caller = call.caller
        var (page, share) = try await service.pages.makePage(
            of: request.rowsMax,
            in: table
        ) { reservation in
            request.reservation = reservation
            return try await service.store.changes(request, in: table)
        }
        table.pageSize.record(rows: page.rows, bytes: page.bytes.count)
        if service.epochs.learn(page.clock).fingerprint != scope.epoch {
            throw ServerError.epochChanged
        }
        guard page.clock.horizon <= link.timestamp else {
            throw ServerError.deltaExpired(page.clock)
        }
        await service.readHooks.after(call, table, nil, rows: page.rows)
        let links = links(behind: page, scope, call)
        let bytes = page.bytes
        // The response reuses the page's memory.
        page.bytes = []
        let list = ListPage(bytes: bytes, rows: page.rows, count: page.count)
        var answer = service.answers.list(call, table.name, list, links, page.clock)
        answer.share = share
        answer.applies(call, plan.pageSizeApplied, tracksChanges: true)
        return answer
    }

    /// Returns the response to a delta link if nothing was written since; this needs no query.
    private func nothingNew(
        _ call: TableCall,
        _ table: Table,
        _ plan: ListPlan,
        _ clock: TableClock
    ) async -> ServerResponse {
        await service.readHooks.after(call, table, nil, rows: 0)
        var links = ListLinks()
        // The link that was followed stays valid.
        links.delta = call.parameters.linkAgain
        let page = ListPlan.emptyPage(plan.options, call.generation)
        var answer = service.answers.list(call, table.name, page, links, clock)
        answer.applies(call, plan.pageSizeApplied, tracksChanges: true)
        return answer
    }

    /// Returns the links to the next page of changes, or to the changes after the last one.
    private func links(
        behind page: ChangePage,
        _ scope: DeltaScope,
        _ call: TableCall
    ) -> ListLinks {
        let token = DeltaToken(.changes, scope, timestamp: page.next ?? page.clock.timestamp)
        let link = call.parameters.link(token)
        var links = ListLinks()
        if page.next != nil { links.next = link } else { links.delta = link }
        return links
    }
}

extension ServerResponse {
    /// Adds the header that lists the applied preferences.
    fileprivate mutating func applies(
        _ call: TableCall,
        _ pageSize: Int?,
        tracksChanges: Bool
    ) {
        let applied = call.head.preferences.applied(
            pageSize: pageSize,
            tracksChanges: tracksChanges
        )
        if let applied { headers.append("Preference-Applied", applied) }
    }
}
