// OperationRequest: operation, local row and base row -> method, If-Match and body.

import Foundation
import Testing
import Tideline
import TidelineCore

@Suite struct OperationRequestTests {
    private static let schema = TableSchema(
        name: "T",
        columns: [
            ColumnDefinition("text", .string, nullable: false),
            ColumnDefinition("rank", .integer),
        ]
    )
    private static let base: Row = [
        "id": "a", "text": "one", "rank": 1, "extra": "x", "version": "v\"1",
    ]
    private static let local: Row = [
        "id": "a", "text": "two", "rank": 1, "extra": "x", "version": "v\"1",
    ]

    private func frozen(
        _ kind: OperationKind,
        local: Row? = OperationRequestTests.local,
        base: Row? = OperationRequestTests.base,
        latest: Row? = nil,
        _ change: (inout QueuedOperation) -> Void = { _ in }
    ) -> QueuedOperation.Frozen? {
        var operation = QueuedOperation(id: 1, table: "T", itemID: "a", kind: kind)
        change(&operation)
        return OperationRequest.frozen(
            operation,
            local: local,
            basis: base.map { RowBasis(base: $0, latest: latest.map { .row($0) }) },
            schema: Self.schema,
            requestID: "r1",
            now: Date(timeIntervalSince1970: 0)
        )
    }

    @Test("An insert sends all columns but system columns")
    func anInsertSendsEverythingButSystemColumns() {
        let request = frozen(.insert, base: nil)
        #expect(request?.method == "POST")
        #expect(request?.ifMatch == nil)
        #expect(request?.body == #"{"id":"a","text":"two","rank":1,"extra":"x"}"#)
        #expect(request?.requestID == "r1")
        #expect(request?.firstSent == "Thu, 01 Jan 1970 00:00:00 GMT")
        #expect(request?.sentRow == Self.local)
    }

    @Test("An insert omits null in non-nullable columns")
    func anInsertOmitsNullInNonNullableColumns() {
        let request = frozen(.insert, local: ["id": "a", "text": nil, "rank": nil], base: nil)
        #expect(request?.body == #"{"id":"a","rank":null}"#)
    }

    @Test("An update sends only the changed columns") func anUpdateSendsTheDifferences() {
        let request = frozen(.update)
        #expect(request?.method == "PATCH")
        #expect(request?.query == "")
        #expect(request?.ifMatch == "\"v\\\"1\"")
        #expect(request?.body == #"{"text":"two"}"#)
    }

    @Test("An update that changes nothing is not sent") func anUpdateThatChangesNothingIsNotSent() {
        #expect(frozen(.update, local: Self.base) == nil)
    }

    @Test("An update of an older version sends all columns of the app")
    func anUpdateOnAnOlderVersionSendsAllColumnsOfTheApp() {
        let request = frozen(.update) {
            $0.basisVersion = "v0"
            $0.sendsWholeRow = true
        }
        #expect(request?.ifMatch == "\"v0\"")
        #expect(request?.body == #"{"text":"two","rank":1}"#)
    }

    @Test("An update that sends the whole row includes changes of unknown columns")
    func aWholeRowKeepsChangesOfUnknownColumns() {
        let request = frozen(.update, local: ["id": "a", "text": "two", "extra": "y"]) {
            $0.sendsWholeRow = true
        }
        #expect(request?.body == #"{"text":"two","extra":"y"}"#)
    }

    @Test("An update on top of the server's row leaves out the values that the server has")
    func anUpdateOnTopOfTheServersRowSendsTheDifferences() {
        let latest: Row = ["id": "a", "text": "theirs", "rank": 1, "version": "v2"]
        func body(_ local: Row, basedOn version: String = "v2") -> String? {
            let request = frozen(.update, local: local, latest: latest) {
                $0.basisVersion = version
                $0.sendsWholeRow = true
            }
            #expect(request?.ifMatch == "\"\(version)\"")
            #expect(request?.query == (local["extra"] == nil ? "" : "?__changed=text,extra"))
            return request?.body
        }
        var mine: Row = ["id": "a", "text": "mine", "rank": 1, "version": "v\"1"]
        #expect(body(mine) == #"{"text":"mine"}"#)
        #expect(body(mine, basedOn: "v1") == #"{"text":"mine","rank":1}"#)
        // The server knows which of two names of a column counts only if it has both values.
        mine["extra"] = "y"
        #expect(body(mine) == #"{"text":"mine","rank":1,"extra":"y"}"#)
        #expect(body(["id": "a", "text": "theirs"]) == #"{"text":"theirs"}"#)
    }

    @Test("An update names the members that were set if the app does not know all of them")
    func anUpdateNamesTheMembersThatWereSet() {
        var edited = Self.local
        edited["extra"] = "y"
        let changes = frozen(.update, local: edited)
        #expect(changes?.query == "?__changed=text,extra")
        #expect(changes?.body == #"{"text":"two","extra":"y"}"#)
        let whole = frozen(.update, local: edited) { $0.sendsWholeRow = true }
        #expect(whole?.query == "?__changed=text,extra")
        #expect(whole?.body == #"{"text":"two","rank":1,"extra":"y"}"#)
        // The row was inserted in place of the base row.
        let inserted: Row = ["id": "a", "text": "", "rank": nil, "extra": "x"]
        let replaced = frozen(.update, local: inserted) { $0.sendsWholeRow = true }
        #expect(replaced?.query == "?__changed=extra")
        #expect(replaced?.body == #"{"text":"","rank":null,"extra":"x"}"#)
    }

    @Test("A restored row replaces its tombstone with a PUT") func aRevivalReplacesTheTombstone() {
        let request = frozen(.update) {
            $0.revives = true
            $0.basisVersion = "v7"
        }
        #expect(request?.method == "PUT")
        #expect(request?.query == "?__includedeleted=true&__changed=text")
        #expect(request?.ifMatch == "\"v7\"")
        #expect(
            request?.body == #"{"id":"a","text":"two","rank":1,"extra":"x","deleted":false}"#
        )
    }

    @Test("A delete sends the base version and no body") func aDeleteHasNoBody() {
        let request = frozen(.delete, local: nil)
        #expect(request?.method == "DELETE")
        #expect(request?.ifMatch == "\"v\\\"1\"")
        #expect(request?.body == nil)
        #expect(request?.sentRow == nil)
    }

    @Test("An operation without its row or its base row sends nothing")
    func anOperationWithoutRowOrBaseSendsNothing() {
        #expect(frozen(.delete, local: nil, base: nil) == nil)
        #expect(frozen(.insert, local: nil, base: nil) == nil)
        #expect(frozen(.update, local: nil) == nil)
    }

    @Test("The sent values are read from the body of the frozen request")
    func thePayloadIsReadFromTheBytes() {
        var operation = QueuedOperation(id: 1, table: "T", itemID: "a", kind: .insert)
        operation.frozen = frozen(.insert, base: nil)
        let payload = OperationRequest.payload(operation, schema: Self.schema)
        #expect(payload == ["text": "two", "rank": 1, "extra": "x"])
        operation.kind = .delete
        #expect(OperationRequest.payload(operation, schema: Self.schema) == nil)
    }
}
