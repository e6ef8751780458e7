// The example code as a top-level program. Arguments: the endpoint, the path of the store.
//
// It has the settings of a plain Swift 6 package, and prints the output that ContractExampleTests expects.

import Foundation
import Tideline

struct TodoItem: SyncRecord {
    var id = UUID().uuidString.lowercased()
    var text: String
    var complete = false
    var updatedAt: Date?
}

guard CommandLine.arguments.count == 3, let endpoint = URL(string: CommandLine.arguments[1]) else {
    fatalError("usage: ContractExampleMain ENDPOINT STORE")
}
var search = "milk"

let client = SyncClient(endpoint: endpoint)
try await client.syncContext.initialize(
    store: try SQLiteStore(path: CommandLine.arguments[2]),
    tables: [TodoItem.self]
)

let todos = try client.syncTable(TodoItem.self)
let milk = try await todos.insert(TodoItem(text: "Buy milk"))
let open = try await todos.read(
    where: { !$0.complete && $0.text.contains("milk") },
    sortedBy: [SortDescriptor(\.text)]
)
let same = try await todos.read(where: #Predicate { !$0.complete && $0.text.contains("milk") })
let captured = try await todos.read(where: { $0.text.contains(search) && $0.id == milk.id })
let odata = try await todos.read(
    Query(odata: "$filter=complete eq false&$orderby=text")
)
print("read \(open.count) \(same.count) \(captured.count) \(odata.items.count)")

for try await items in todos.observe(where: { !$0.complete }) {
    print("observed \(items.count)")
    if items.count == 2 { break }
    try await todos.insert(TodoItem(text: "Buy bread"))
}

try await client.syncContext.push()
try await todos.pull(queryID: "openItems", where: { !$0.complete })
try await todos.pull(queryID: nil)
let pulled = try await todos.count(where: { $0.updatedAt != nil })
try await todos.purge()
let left = try await todos.count()

let remote = client.table(TodoItem.self)
let there = try await remote.read(where: { $0.text.contains(search) })
print("pulled \(pulled) left \(left) there \(there.count)")
