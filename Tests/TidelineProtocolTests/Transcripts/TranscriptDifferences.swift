// TranscriptDifferences: responses of this server that differ from the recorded ones, and why.
//
// Everywhere: `Cache-Control: no-store` instead of no-cache, expires and pragma; no `x-zumo-server-version`; no weak
// tags on lists and errors; rejections are problem documents that also have the original's member `error`; the members
// of a row are in another order; `deleted` also in tables without soft delete, because the JavaScript client needs it;
// rows without `$orderby` are ordered by id.

struct Difference: Sendable {
    /// A request that restores the row to the state from which the recording continues.
    struct Repair: Sendable {
        var method: String
        var target: String
        var body: String
    }

    var status: Int
    var reason: String
    /// The ids of the rows in the response, in order; nil to compare nothing in the body.
    var ids: [String]?
    var repair: Repair?

    init(_ status: Int, _ reason: String, ids: [String]? = nil, repair: Repair? = nil) {
        self.status = status
        self.reason = reason
        self.ids = ids
        self.repair = repair
    }

    static let milk = "741ca5cc-34e8-49dd-be4a-462afdb65f5e"
    static let empty1 = "77d9b430-e481-45d5-897f-a07d6ab7cd5c"
    static let empty2 = "1d13bbdf-dfcc-45e3-8315-97d2134dca8f"

    private static let byID = "rows without $orderby, and rows with equal keys, are ordered by id"
    private static let callersFault = "the request is invalid: 400, not 500"
    private static let authentication = "the table requires authentication, which other tests cover"

    /// Calls that are not replayed.
    static let skipped: [Int: String] = [
        108: authentication, 109: authentication, 110: authentication, 111: authentication,
        112: authentication, 113: authentication, 114: authentication,
        115: "other tests cover CORS",
        118: "push notifications belong to the hosting platform",
    ]

    static let all: [Int: Difference] = inserts.merging(lists) { one, _ in one }
        .merging(changes) { one, _ in one }.merging(others) { one, _ in one }

    private static let inserts: [Int: Difference] = [
        3: Difference(
            409,
            "the stored row, not the sent one, because a client treats it as the server's row"
        ),
        8: Difference(400, callersFault),
        11: Difference(400, callersFault),
        13: Difference(
            400,
            "a number is not a string; the original silently converts it",
            repair: Repair(
                method: "POST",
                target: "/tables/TodoItem",
                body: #"{"id":"t6","text":"42","complete":true}"#
            )
        ),
        15: Difference(400, callersFault),
        16: Difference(415, "the original treats it as a missing body"),
    ]

    private static let lists: [Int: Difference] = [
        17: Difference(200, "a request without a version is of the other generation"),
        18: Difference(200, "3.x is the other generation"),
        19: Difference(200, byID, ids: [empty2]),
        22: Difference(304, "RFC 9110; no classic client sends If-None-Match"),
        27: Difference(200, "the original's SQL adds texts as numbers", ids: [milk]),
        28: Difference(200, "the original's SQL adds texts as numbers", ids: ["t1"]),
        30: Difference(200, "the original swaps the arguments", ids: [milk]),
        31: Difference(200, "the original calls a function of SQL Server", ids: [milk]),
        34: Difference(200, byID, ids: [empty2, milk]),
        36: Difference(400, "the column has text; dates require a declared column"),
        37: Difference(400, callersFault),
        38: Difference(400, callersFault),
        40: Difference(
            200,
            byID,
            ids: ["t6", "t1", milk, "o'brien-é", "t3", empty2, empty1, "t5", "t2v"]
        ),
        44: Difference(200, "no rows were requested", ids: []),
        45: Difference(400, callersFault),
        46: Difference(400, callersFault),
        47: Difference(200, byID, ids: [milk]),
        49: Difference(200, byID, ids: [empty2]),
        82: Difference(200, "__includeDeleted applies to a single row, too, as in the .NET server"),
        85: Difference(
            200,
            "false is false",
            ids: [empty2, milk, empty1, "o'brien-é", "t2v", "t5", "t6"]
        ),
        105: Difference(200, byID, ids: [empty2]),
        116: Difference(200, byID, ids: [empty2]),
    ]

    private static let changes: [Int: Difference] = [
        62: Difference(
            200,
            "* matches any stored row, as in RFC 9110 and in the .NET server",
            repair: Repair(
                method: "PATCH",
                target: "/tables/TodoItem/t1",
                body: #"{"text":"Second"}"#
            )
        ),
        70: Difference(200, "a body without changes is valid: the row gets a new version"),
        73: Difference(
            200,
            "PUT replaces, as in the .NET server",
            repair: Repair(
                method: "PATCH",
                target: "/tables/TodoItem/t1",
                body: #"{"text":null,"complete":false,"note":"added"}"#
            )
        ),
        76: Difference(
            204,
            "all clients accept 204; only the Node server responds 200 with the row"
        ),
        80: Difference(204, "as 76"),
        86: Difference(409, "the stored row, as in 3"),
        91: Difference(204, "as 76"),
        94: Difference(204, "as 76"),
        97: Difference(405, "this server does not delete rows by a filter"),
    ]

    private static let others: [Int: Difference] = [
        99: Difference(201, "ids are text; the server does not number them"),
        100: Difference(404, "ids are text; the server does not number them"),
        102: Difference(400, callersFault),
        103: Difference(400, callersFault),
        117: Difference(200, "the original fails"),
    ]
}
