// DeltaCheck: the `$deltatoken` of a delta link, sent to a complete server that returns the changes.

import Dispatch
import Synchronization
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite

/// The first byte selects the table and the meaning of the other bytes.
///
/// They are the bytes of a token, its text, changes to the bytes of a real token, or query options that are added to a
/// real token.
final class DeltaCheck {
    /// A table without restrictions, and one that hides the rows without a rank.
    private static let tables = ["plain", "viewed"]

    /// The id of a row that no response of the second table may contain.
    private static let hidden = "hidden-row"

    private let handler: RequestHandler
    /// The delta and page tokens of each table.
    private let tokens: [[[UInt8]]]

    init() throws {
        (handler, tokens) = try Self.blocking {
            var options = SQLiteTableStore.Options()
            options.inline = true
            let store = try SQLiteTableStore(path: ":memory:", options: options)
            let columns = [ColumnDefinition("rank", .integer), ColumnDefinition("text", .string)]
            var settings = ServerSettings(
                tables: Self.tables.map {
                    TableDefinition($0, columns: columns, softDelete: $0 == "plain")
                }
            )
            var hooks = TableHooks()
            hooks.rowFilter = { _ in "rank gt 0" }
            settings.hooks = ["viewed": hooks]
            settings.limits.changeScan = 3
            let handler = RequestHandler(try await TableService(settings, store: store))
            var tokens: [[[UInt8]]] = []
            for table in Self.tables { tokens.append(try await Self.fill(table, handler)) }
            return (handler, tokens)
        }
    }

    /// Inserts, changes and deletes rows, some of them hidden, and returns the tokens that the server issued.
    private static func fill(_ table: String, _ handler: RequestHandler) async throws -> [[UInt8]] {
        func send(_ method: String, _ path: String, _ body: String = "") async -> ServerResponse {
            await handler.handle(request(method, path, body: body))
        }
        func link(_ query: String) async throws -> [UInt8] {
            let parts = query.split(separator: "?", maxSplits: 1).map(String.init)
            let answer = await handler.handle(request("GET", parts[0], query: parts[1]))
            let text = String(decoding: answer.body, as: UTF8.self)
            guard let mark = text.firstRange(of: "%24deltatoken=") else {
                throw FuzzFailure(description: "a tracked list has a link: \(text)")
            }
            let token = text[mark.upperBound...].prefix { $0 != "\"" && $0 != "&" }
            return Base64URL.decode(token.utf8) ?? []
        }
        let path = "/tables/" + table
        for id in ["a", "b", "c", hidden] {
            let rank = id == hidden ? 0 : 1
            _ = await send("POST", path, #"{"id":"\#(id)","rank":\#(rank),"text":"\#(id)"}"#)
        }
        var tokens = [try await link(path + "?$top=1"), try await link(path + "?$top=9")]
        for body in [#"{"rank":2}"#, #"{"rank":null}"#, #"{"rank":3}"#] {
            _ = await send("PATCH", path + "/a", body)
        }
        _ = await send("PATCH", path + "/" + hidden, #"{"text":"x"}"#)
        _ = await send("DELETE", path + "/b")
        _ = await send("PATCH", path + "/c", #"{"rank":null}"#)
        tokens.append(try await link(path + "?$top=9"))
        return tokens
    }

    private static func request(
        _ method: String,
        _ path: String,
        query: String = "",
        body: String = ""
    ) -> ServerRequest {
        ServerRequest(
            method: method,
            path: path,
            query: query,
            headers: [
                "Host": "a", "Content-Type": "application/json", "Prefer": "odata.track-changes",
            ],
            body: Array(body.utf8)
        )
    }

    /// Blocks until async work has finished.
    ///
    /// The work runs on a separate thread, because the caller may block a thread of the cooperative pool.
    private static func blocking<Result: Sendable>(
        _ body: @escaping @Sendable () async throws -> Result
    ) throws -> Result {
        let end = DispatchSemaphore(value: 0)
        let result = Mutex<Swift.Result<Result, any Error>?>(nil)
        Task(executorPreference: executor) {
            let ended: Swift.Result<Result, any Error>
            do {
                ended = .success(try await body())
            } catch {
                ended = .failure(error)
            }
            result.withLock { $0 = ended }
            end.signal()
        }
        end.wait()
        guard let ended = result.withLock({ $0 }) else {
            throw FuzzFailure(description: "work ends with a result")
        }
        return try ended.get()
    }

    private static let executor = QueueExecutor()

    func run(_ input: UnsafeBufferPointer<UInt8>) throws {
        let rest = Array(input.dropFirst())
        let place = Int(input[0] & 1)
        let known = tokens[place][Int(input[0] >> 4) % tokens[place].count]
        var query: String
        switch input[0] >> 1 & 3 {
        case 0: query = Self.parameter(Base64URL.encode(rest))
        case 1: query = Self.parameter(String(decoding: rest, as: UTF8.self))
        case 2: query = Self.parameter(Base64URL.encode(Self.changed(known, by: rest)))
        default:
            query = Self.parameter(Base64URL.encode(known))
            query +=
                "&"
                + PercentCoding.encode(String(decoding: rest, as: UTF8.self))
                .replacing("%3D", with: "=").replacing("%26", with: "&")
        }
        try ask(place, query)
    }

    private static func parameter(_ token: String) -> String {
        "$deltatoken=" + PercentCoding.encode(token)
    }

    /// Changes bytes of a token; each pair of bytes is a position and the value to add there.
    private static func changed(_ token: [UInt8], by changes: [UInt8]) -> [UInt8] {
        var token = token
        for pair in stride(from: 0, to: changes.count - 1, by: 2) where !token.isEmpty {
            token[Int(changes[pair]) % token.count] &+= changes[pair + 1]
        }
        return token
    }

    /// Checks that a link either returns changes that the caller may read, or is rejected.
    private func ask(_ place: Int, _ query: String) throws {
        let request = Self.request("GET", "/tables/" + Self.tables[place], query: query)
        let answer = try Self.blocking { [handler] in await handler.handle(request) }
        try demand([200, 400, 410].contains(answer.status), "a link is answered or refused")
        let isJSON = answer.body.withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes)
            return (try? reader.rawValue()) != nil && (try? reader.end()) != nil
        }
        try demand(isJSON, "the answer is JSON")
        let text = String(decoding: answer.body, as: UTF8.self)
        let isTold = text.contains("\"id\":\"\(Self.hidden)\"")
        try demand(place == 0 || !isTold, "nobody is told a row that they may not see")
    }
}

/// Runs tasks on a queue.
private final class QueueExecutor: TaskExecutor {
    private let queue = DispatchQueue(label: "fuzz")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
