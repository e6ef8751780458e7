// Declarations for the examples in doc comments of Sources/Tideline: scripts/docs compiles
// the examples after this file. The code is never run.

import Foundation
import Tideline

struct TodoItem: SyncRecord, Equatable {
    var id = UUID().uuidString.lowercased()
    var text: String
    var complete = false
    var rank = 0
    var state = ""
    var priority = ""
    var list: String?
    var updatedAt: Date?
}

struct TodoList: SyncRecord, Equatable {
    var id = ""
    var name: String
}

enum Status: String, Codable, CaseIterable { case open, done, cancelled }

struct Job: SyncRecord {
    var id = ""
    var customerID = ""
    var title = ""
    var status = Status.open
    var minutes = 0
    var createdAt: Date?
}

struct Customer: SyncRecord {
    var id = ""
    var name = ""
    var city = ""
}

struct Visit: SyncRecord {
    var id = ""
    var jobID = ""
    var start: Date?
}

struct Overview: Equatable {
    var open: [TodoItem] = []

    init(_ reader: SyncReader, list id: String) throws {}

    static func == (one: Overview, other: Overview) -> Bool { true }
}

struct Session {
    var userID: String
    var token: String
}

struct SignedOut: Error {}

func given<T>() -> T { preconditionFailure("Examples are compiled and never run.") }
func show<T>(_ value: T) {}
func signIn() async throws {}
func renew(_ session: Session?) async throws -> Session { given() }
func renewedSession() async throws -> Session? { given() }

let url: URL = given()
let client: SyncClient = given()
let store: SQLiteStore = given()
let todos: SyncTable<TodoItem> = given()
let rows: SyncTable<Row> = given()
let jobs: SyncTable<Job> = given()
let job: Job = given()
// Unsafe only if it ran: a reader belongs to one closure.
nonisolated(unsafe) let reader: SyncReader = given()
// Unsafe only if it ran, as the reader.
nonisolated(unsafe) let transaction: SyncTransaction = given()
let milk: TodoItem = given()
let id: String = given()
let ids: [String] = given()
let monday: Date = given()
let row: Row = given()
let lines: [String] = given()
let all: [Row] = given()
let query: TableQuery = given()
let schema: TableSchema = given()

// Stand-ins for SwiftUI. A body with `return` does not use a result builder.

@MainActor protocol View {
    associatedtype Body: View
    @ViewBuilder var body: Body { get }
}

extension Never: View {
    var body: Never { return given() }
}

extension Optional: View where Wrapped: View {
    var body: Never { return given() }
}

struct Text: View {
    init(_ text: String) {}
    var body: Never { return given() }
}

struct List<Data: RandomAccessCollection, Row: View>: View {
    init(_ data: Data, @ViewBuilder row: @escaping (Data.Element) -> Row) {}
    var body: Never { return given() }
}

@resultBuilder enum ViewBuilder {
    static func buildBlock<Part: View>(_ part: Part) -> Part { part }
    static func buildOptional<Part: View>(_ part: Part?) -> Part? { part }
}

@MainActor protocol DynamicProperty {
    mutating func update()
}

@propertyWrapper @MainActor struct State<Value> {
    var wrappedValue: Value
    init(initialValue: Value) { wrappedValue = initialValue }
    init(wrappedValue: Value) { self.wrappedValue = wrappedValue }
}
