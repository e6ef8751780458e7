// BatchCheck: batch bodies, their execution, and the response body.

import TidelineCore
import TidelineServerCore

final class BatchCheck {
    private let origin = BatchOrigin(host: "a.test", publicURL: "https://b.test/x")
    private var limits = ServerLimits()

    init() {
        limits.batchRequests = 50
    }

    func run(_ input: UnsafeBufferPointer<UInt8>) throws {
        let bytes = Array(input.dropFirst())
        let envelope: BatchEnvelope
        do {
            envelope = try BatchReader.read(bytes, origin: origin, limits: limits)
        } catch let error as ServerError {
            try demand([400, 413].contains(error.status), "a bad batch is the caller's fault")
            try demand((0...bytes.count).contains(error.position ?? 0), "the position is in it")
            return
        }
        try checkOrder(envelope)
        for request in envelope.requests { try check(request) }
        try walk(envelope, seed: input[0])
        try answer(envelope)
    }

    /// Checks that each request is in exactly one unit, and that references point only to earlier requests.
    private func checkOrder(_ envelope: BatchEnvelope) throws {
        try demand(envelope.requests.count <= limits.batchRequests, "the limit holds")
        var next = 0
        for (place, unit) in envelope.units.enumerated() {
            try demand(unit.requests.lowerBound == next, "units follow each other")
            try demand(!unit.requests.isEmpty, "a unit has requests")
            try demand(unit.group != nil || unit.requests.count == 1, "only groups have many")
            try demand(unit.dependsOn.allSatisfy { $0 < place }, "dependencies are earlier")
            next = unit.requests.upperBound
        }
        try demand(next == envelope.requests.count, "each request is in a unit")
        let names = envelope.requests.map(\.id) + envelope.units.compactMap(\.group)
        try demand(Set(names).count == names.count, "each name is there once")
        for (place, request) in envelope.requests.enumerated() {
            if case .row(let other, _, _) = request.target {
                try demand(other < place, "references are to earlier requests")
            }
        }
    }

    private func check(_ request: BatchRequest) throws {
        if case .path(let path, _) = request.target {
            try demand(path.utf8.first == UInt8(ascii: "/"), "a path is whole")
        }
        for field in request.headers {
            let isLine = field.value.utf8.contains { $0 == 0x0D || $0 == 0x0A }
            try demand(!isLine, "a value is one line")
        }
        guard request.headers["Content-Type"] == "application/json", !request.body.isEmpty else {
            return
        }
        try request.body.withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes)
            try reader.skip(try reader.value(), checksNames: false)
            try reader.end()
        }
    }

    /// Checks that the machine finishes, whichever units fail.
    private func walk(_ envelope: BatchEnvelope, seed: UInt8) throws {
        var machine = BatchMachine(envelope.units, continuesOnError: seed & 1 == 0)
        var chance = seed
        var steps = 0
        loop: while true {
            steps += 1
            try demand(steps <= envelope.units.count + 1, "each step ends a unit")
            let units: [Int]
            switch machine.next() {
            case .finish: break loop
            case .ask(let unit): units = [unit]
            case .write(let writes): units = writes
            }
            for (index, unit) in units.enumerated() {
                chance = chance &* 5 &+ 1
                if index > 0 && (chance & 4 != 0 || machine.lacksDependency(unit)) { break }
                let isDone = chance & 8 == 0
                machine.ended(unit, isDone ? .succeeded : .failed)
                if !isDone { break }
            }
        }
        try demand(machine.ends.allSatisfy { $0 != nil }, "each unit has an end")
    }

    /// Checks that the response is JSON and has the ids of the requests in their order.
    private func answer(_ envelope: BatchEnvelope) throws {
        let answers = envelope.requests.map { request in
            ServerResponse(
                status: 200,
                headers: request.headers,
                body: request.body
            ).checkedForBatch()
        }
        let body = BatchAnswers.body(envelope, answers)
        try body.withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes)
            _ = try reader.rawValue()
            try reader.end()
        }
    }
}
