// BatchReader: parses batches.
//
// It finds all errors in the batch itself before any request is executed. It checks that the bodies of requests are
// JSON and copies them unchanged; the tables check their contents.

import TidelineCore

/// A strict parser of the body of a batch (OData JSON Format 4.01, section 19).
package struct BatchReader {
    private var reader: JSONReader
    private let origin: BatchOrigin
    private let requestsMax: Int
    private var envelope = BatchEnvelope()
    /// The index of each request by its id.
    private var places: [String: Int] = [:]
    /// The last `url` that was a path, with its target.
    private var lastPath: (url: String, target: BatchTarget, route: Route?)?
    /// The unit of each request.
    private var unitOf: [Int] = []
    /// The unit of each atomicity group.
    private var groups: [String: Int] = [:]

    private static let idBytesMax = 128

    /// Reads a whole body.
    package static func read(
        _ bytes: [UInt8],
        origin: BatchOrigin,
        limits: ServerLimits
    ) throws -> BatchEnvelope {
        guard bytes.count <= limits.batchBytes else {
            throw ServerError.batchTooLarge(limits.batchBytes)
        }
        do {
            return try bytes.withUnsafeBufferPointer { buffer in
                var reader = BatchReader(buffer, origin, requestsMax: limits.batchRequests)
                try reader.readEnvelope()
                return reader.envelope
            }
        } catch let error as JSONError {
            throw ServerError.malformed(error)
        }
    }

    private init(
        _ bytes: UnsafeBufferPointer<UInt8>,
        _ origin: BatchOrigin,
        requestsMax: Int
    ) {
        // A body may be as deep as in a request of its own, below the envelope, its list of requests and one request.
        reader = JSONReader(bytes, outside: 4)
        self.origin = origin
        self.requestsMax = requestsMax
    }

    // MARK: - The envelope

    private mutating func readEnvelope() throws {
        guard case .object = try reader.value() else {
            throw ServerError.badBatch("the body", "a JSON object is expected")
        }
        try reader.beginObject()
        var names = MemberNames()
        var hasRequests = false
        while let name = try reader.nextMember() {
            try names.insert(name, reader)
            let text = reader.text(name)
            if text == "requests" {
                hasRequests = true
                try readRequests()
            } else if text == "dryRun" {
                guard case .bool(let value) = try reader.value() else {
                    throw ServerError.badBatch("dryRun", "true or false is expected")
                }
                envelope.isDryRun = value
            } else if Self.isAnnotation(text) {
                _ = try reader.rawValue()
            } else {
                throw ServerError.badBatch(
                    "the body",
                    "it has a member other than 'requests' or 'dryRun'",
                    position: name.range.lowerBound
                )
            }
        }
        try reader.end()
        guard hasRequests else { throw ServerError.badBatch("the body", "'requests' is missing") }
    }

    /// Whether a member is an annotation, which is allowed everywhere and ignored.
    private static func isAnnotation(_ name: String) -> Bool { name.utf8.contains(0x40) }

    private mutating func readRequests() throws {
        guard case .array = try reader.value() else {
            throw ServerError.badBatch("requests", "an array is expected")
        }
        try reader.beginArray()
        while try reader.nextElement() {
            guard envelope.requests.count < requestsMax else {
                throw ServerError.tooManyRequests(requestsMax)
            }
            var members = BatchMembers(place: envelope.requests.count)
            try members.read(&reader)
            try take(members)
        }
    }

    // MARK: - References between requests

    private mutating func take(_ members: BatchMembers) throws {
        let place = envelope.requests.count
        let id = try members.id(Self.idBytesMax)
        guard places[id] == nil else { throw members.fault("id", "it occurs twice") }
        guard groups[id] == nil else {
            throw members.fault("id", "it is also the name of an atomicityGroup")
        }
        let method = try members.requestMethod()
        let (target, route) = try targetAndRoute(members)
        let kind = try kind(of: route, method, members)
        let request = BatchRequest(
            id: id,
            method: method,
            target: target,
            route: route,
            headers: try members.requestHeaders(origin),
            body: try members.requestBody(reader, method),
            hasCondition: members.hasCondition
        )
        places[id] = place
        try put(request, kind, members)
    }

    /// Adds the request to the unit of its group, or as its own unit.
    private mutating func put(
        _ request: BatchRequest,
        _ kind: BatchUnit.Kind,
        _ members: BatchMembers
    ) throws {
        let place = envelope.requests.count
        let last = envelope.units.count - 1
        var unit = envelope.units.count
        if let group = members.group {
            if let known = groups[group] {
                guard known == last else {
                    throw members.fault("atomicityGroup", "its requests are not adjacent")
                }
                unit = known
            } else {
                guard BatchMembers.isName(group, bytesMax: Self.idBytesMax) else {
                    throw members.fault("atomicityGroup", BatchMembers.nameRule)
                }
                guard places[group] == nil else {
                    throw members.fault("atomicityGroup", "it is also the id of a request")
                }
                groups[group] = unit
            }
        }
        if unit == envelope.units.count {
            envelope.units.append(
                BatchUnit(kind: kind, requests: place..<place, group: members.group)
            )
        }
        envelope.units[unit].requests = envelope.units[unit].requests.lowerBound..<place + 1
        let others = try dependencies(of: request, members, unit)
        if !others.isEmpty {
            var known = Set(envelope.units[unit].dependsOn)
            for other in others where known.insert(other).inserted {
                envelope.units[unit].dependsOn.append(other)
            }
        }
        unitOf.append(unit)
        envelope.requests.append(request)
    }

    /// Returns the units that must have succeeded before.
    private func dependencies(
        of request: BatchRequest,
        _ members: BatchMembers,
        _ unit: Int
    ) throws -> [Int] {
        var units: [Int] = []
        for name in members.dependsOn {
            if let other = groups[name] {
                guard other != unit else {
                    throw members.fault("dependsOn", "it names the request's own group")
                }
                units.append(other)
            } else if let place = places[name], place < envelope.requests.count {
                units.append(unitOf[place])
            } else {
                throw members.fault("dependsOn", "it does not name an earlier request or group")
            }
        }
        if case .row(let place, _, _) = request.target { units.append(unitOf[place]) }
        return units.filter { $0 != unit }
    }

    // MARK: - Targets of requests

    /// Returns the target of a request.
    ///
    /// Most requests of a batch have the same target as the previous one, so the last target is cached.
    private mutating func targetAndRoute(_ members: BatchMembers) throws -> (BatchTarget, Route?) {
        let url = try members.urlText()
        if let lastPath, lastPath.url.utf8.elementsEqual(url.utf8) {
            return (lastPath.target, lastPath.route)
        }
        let target = try target(url, members)
        guard case .path(let path, _) = target else { return (target, nil) }
        let route = try? Route(path: path)
        lastPath = (url, target, route)
        return (target, route)
    }

    private func target(_ text: String, _ members: BatchMembers) throws -> BatchTarget {
        do {
            switch try BatchURL(text, origin: origin) {
            case .path(let path, let query): return .path(path, query: query)
            case .reference(let name, let rest, let query):
                guard let place = places[name] else {
                    throw members.fault(
                        "url",
                        "its '$' does not name an earlier request; an id with '/', '?' or '#' "
                            + "cannot be referenced"
                    )
                }
                guard namesRow(envelope.requests[place]) else {
                    throw members.fault("url", "its '$' names a request that has no single row")
                }
                return .row(of: place, rest: rest, query: query)
            }
        } catch let fault as BatchURL.Fault {
            throw members.fault("url", fault.rawValue)
        }
    }

    /// Whether the request creates, changes or reads exactly one row.
    private func namesRow(_ request: BatchRequest) -> Bool {
        if case .row(_, let rest, _) = request.target { return rest.isEmpty || rest == "/" }
        switch request.route {
        case .row: return true
        case .table: return request.method != "GET"
        case .health, .ready, .metrics, .batch, .events, .schema, .endpoint, .dashboard, .admin,
            .unknown, nil:
            return false
        }
    }

    private func kind(
        of route: Route?,
        _ method: String,
        _ members: BatchMembers
    ) throws -> BatchUnit.Kind {
        var kind: BatchUnit.Kind = method == "GET" ? .single : .write
        switch route {
        case .batch: throw members.fault("url", "a batch cannot be part of a batch")
        case .endpoint: kind = .single
        case .table, .row, .health, .ready, .metrics, .events, .schema, .dashboard, .admin,
            .unknown, nil:
            break
        }
        if members.group != nil && kind == .single {
            throw members.fault(
                "atomicityGroup",
                "only writes to tables can be in one, no GET and nothing under /api"
            )
        }
        return kind
    }
}
