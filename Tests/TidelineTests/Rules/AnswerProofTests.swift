// AnswerProof: the answers that prove to be the server's.

import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

@Suite struct AnswerProofTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var status = 403
        var headers: HTTPFields = [:]
        var body = ""

        var testDescription: String { name }
        var response: TransportResponse {
            TransportResponse(status: status, headers: headers, body: Array(body.utf8))
        }
    }

    private static let problem: HTTPFields = ["Content-Type": "application/problem+json"]
    private static let json: HTTPFields = ["Content-Type": "application/json"]

    static let ofServer: [Case] = [
        Case(
            name: "a problem body",
            headers: problem,
            body: #"{"title":"Forbidden","status":403}"#
        ),
        Case(
            name: "a problem body as JSON",
            headers: json,
            body: #"{"detail":"No.","status":403}"#
        ),
        Case(name: "Node", headers: ["x-zumo-server-version": "node-4.0.3"], body: "Not allowed"),
        Case(name: ".NET", headers: ["X-ZUMO-Server-Version": "net-1.1.157.1"]),
        Case(name: "a named request", headers: ["Repeatability-Result": "accepted"]),
        Case(name: "an epoch", headers: ["Tideline-Epoch": "e"]),
    ]

    static let ofGateways: [Case] = [
        Case(name: "nothing"),
        Case(name: "a page", headers: ["Content-Type": "text/html"], body: "<html>403</html>"),
        Case(name: "AWS", headers: json, body: #"{"message":"Forbidden"}"#),
        Case(name: "Azure", headers: json, body: #"{"statusCode":403,"message":"Quota"}"#),
        Case(name: "another status", headers: problem, body: #"{"title":"Bad","status":400}"#),
        Case(name: "a status as text", headers: problem, body: #"{"title":"Bad","status":"403"}"#),
        Case(
            name: "Spring",
            headers: json,
            body: #"{"timestamp":1,"status":403,"error":"Forbidden","path":"/tables/Todo"}"#
        ),
        Case(name: "an array", headers: json, body: "[403]"),
        Case(name: "another version field", headers: ["x-zumo-server-version": "proxy"]),
        Case(name: "a basic challenge", status: 401, headers: ["WWW-Authenticate": "Basic x"]),
    ]

    @Test("A response with a sign of the server proves to be the server's", arguments: ofServer)
    func provesToBeTheServers(one: Case) {
        #expect(AnswerProof.isServers(one.response))
    }

    @Test(
        "A gateway's response neither proves to be the server's nor requires a sign-in",
        arguments: ofGateways
    )
    func doesNotProveToBeTheServers(one: Case) {
        #expect(!AnswerProof.isServers(one.response))
        #expect(!AnswerProof.wantsSignIn(one.response))
    }

    @Test("Only a 401 with a bearer challenge requires a sign-in")
    func aBearerChallengeNeedsASignIn() {
        let fields: HTTPFields = ["WWW-Authenticate": "Bearer error=\"invalid_token\""]
        #expect(AnswerProof.wantsSignIn(TransportResponse(status: 401, headers: fields)))
        #expect(!AnswerProof.wantsSignIn(TransportResponse(status: 403, headers: fields)))
        #expect(!AnswerProof.wantsSignIn(status: 401, headers: ["Content-Type": "text/html"]))
    }

    @Test("An empty page is the server's only with the header field of its other pages")
    func anEmptyPageNeedsTheHeaderFieldOfOtherPages() {
        func isServers(_ headers: HTTPFields, _ signs: ServerSigns, hasRows: Bool = false) -> Bool {
            AnswerProof.isServersPage(headers: headers, hasRows: hasRows, signs: signs)
        }
        #expect(isServers([:], []))
        #expect(!isServers([:], .epoch))
        #expect(!isServers([:], .zumoVersion))
        #expect(isServers([:], .epoch, hasRows: true))
        #expect(isServers(["Tideline-Epoch": "e"], .epoch))
        #expect(
            !AnswerProof.isServersPage(headers: [:], hasRows: false, signs: [], hasEpoch: true)
        )
    }

    @Test("Signs of the server are stored as text, and unknown signs are ignored")
    func signsAreStoredAsText() {
        let signs: ServerSigns = [.epoch, .batches, .events]
        #expect(ServerSigns(text: signs.text) == signs)
        #expect(ServerSigns(text: "zumoVersion later") == .zumoVersion)
    }

    @Test(
        "An app name is made safe for a header field",
        arguments: [
            ("Todo", "Todo"), ("My (App)\\\r\nX-Evil: 1", "My -App----X-Evil: 1"),
            ("Füllen", "F--llen"),
            ("", ""),
        ]
    )
    func anAppNameIsMadeSafeForAHeaderField(name: String, safe: String) {
        #expect(UserAgent.safe(name) == safe)
    }

    @Test("The user agent names the library version and the app")
    func theUserAgentNamesLibraryAndApp() {
        #expect(UserAgent.text(appName: "Todo") == "Tideline/\(ReleaseVersion.text) (Todo)")
        #expect(UserAgent.text(appName: nil).hasPrefix("Tideline/\(ReleaseVersion.text) ("))
    }
}
