// Query(odata:): options, encodings, and errors with their position.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

@Suite struct ODataQueryTests {
    @Test("The example of the contract is parsed as an OData query")
    func theContractsExampleIsParsed() throws {
        let query = try Query<Todo>(odata: "$filter=complete eq false&$orderby=text")
        let other = try Query<Todo>(where: { $0.complete == false })
        #expect(query.filter == other.filter)
        #expect(query.order == [SortKey(column: "text")])
        #expect(query.limit == nil)
    }

    @Test("Each OData query option is parsed") func eachOptionIsParsed() throws {
        let query = try Query<Todo>(
            odata: "?$filter=rank gt 1&$orderby=rank desc,text&$top=5&$skip=2&$select=id,text"
                + "&$count=true&__includeDeleted=true&owner=me"
        )
        #expect(query.filter == (try Query<Todo>(where: { $0.rank > 1 })).filter)
        #expect(
            query.order == [SortKey(column: "rank", ascending: false), SortKey(column: "text")]
        )
        #expect(query.limit == 5)
        #expect(query.offset == 2)
        #expect(query.fields == ["id", "text"])
        #expect(query.includesTotalCount)
        #expect(query.includesDeleted)
        #expect(query.parameters == ["owner": "me"])
    }

    /// Texts, and the text that their filter compares with.
    static let literals: [(String, String)] = [
        ("$filter=text eq 'a'", "a"),
        ("$filter=text eq 'a&b'", "a&b"),
        ("$filter=text eq 'it''s & more'&$top=1", "it's & more"),
        ("$filter=text%20eq%20%27a%26b%27", "a&b"),
        ("%24filter=text%20eq%20'a%26b%3D%25'&%24top=1", "a&b=%"),
        ("$filter=text eq 'a=b+c'", "a=b+c"),
        ("$filter=text eq '%C3%A9'", "é"),
        ("$filter=text eq 'é'", "é"),
        ("&&$filter=text eq ''&", ""),
    ]

    @Test("Percent-encoded and quoted text in an OData filter is decoded", arguments: literals)
    func encodingsAreDecoded(text: String, expected: String) throws {
        let query = try Query<Todo>(odata: text)
        #expect(query.filter == (try Query<Todo>(where: { $0.text == expected })).filter)
    }

    @Test("In a query now() is the device's time for local rows and the server's in a request")
    func nowIsTheTimeOfTheRead() async throws {
        let device = try await Device(ScriptedTransport())
        let todos = try device.todos()
        try await todos.insert(Todo(id: "a"))
        let year = "$filter=year(now()) eq 2027 and cast(now(),Edm.Date) eq 2027-01-15"
        let query = try Query<Todo>(odata: year + "&$orderby=now()&$count=true")
        #expect(try await todos.read(query).totalCount == 1)
        #expect(try await todos.count(query) == 1)
        #expect(try await todos.read(Query(odata: "$filter=now() lt 2027-01-15")).items == [])
        let written = try ODataWriter.queryString(query.table, .v4)
        #expect(written.contains("year%28now%28%29%29"))
    }

    @Test("OData text without a filter matches all rows") func anEmptyTextMatchesAllRows() throws {
        for text in ["", "?", "$select=*"] {
            let query = try Query<Row>(odata: text)
            #expect(query.filter == nil)
            #expect(query.fields == nil)
        }
    }

    /// Texts, the option that the error names, and its position.
    static let faultCases: [(String, String, Int)] = [
        ("$filter=complete eq", "$filter", 11),
        ("$top=1&$filter=text eq 'a", "$filter", 8),
        ("$filter=a eq 1 or", "$filter", 9),
        ("$filter=%20%20a%20zz%201", "$filter", 4),
        ("$orderby=text up", "$orderby", 5),
        ("$top=-1", "$top", 0),
        ("$top=", "$top", 0),
        ("$top=x", "$top", 0),
        ("$top=99999999999999999999", "$top", 0),
        ("$skip=1.5", "$skip", 0),
        ("$count=maybe", "$count", 0),
        ("$filter=a eq '100%'", "$filter", 9),
        ("$filter=a eq '%C3'", "$filter", 0),
        ("$expand=x", "$expand", 0),
        ("$Top=1", "$Top", 0),
        ("$top=1&$top=2", "$top", 0),
        ("$filter=", "$filter", 0),
    ]

    @Test("An OData error names the option and the position", arguments: faultCases)
    func errorsNameTheOptionAndThePosition(text: String, option: String, position: Int) {
        let error = #expect(throws: SyncError.self) { try Query<Todo>(odata: text) }
        #expect(error?.code == .unsupportedQuery)
        let message = error?.message ?? ""
        #expect(message.contains("\(option):"), "\(message)")
        #expect(message.hasSuffix("at byte \(position)."), "\(message)")
        if let cause = error?.cause as? ODataError { #expect(cause.position == position) }
    }
}
