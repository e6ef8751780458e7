// TodoListView: the list, a field for a new item, and the sync status.

#if canImport(SwiftUI)
import SwiftUI
import Tideline

struct TodoListView: View {
    @Bindable var list: TodoList
    @State private var text = ""

    var body: some View {
        NavigationStack {
            List {
                if !list.conflicts.isEmpty {
                    Section("In conflict") {
                        ForEach(list.conflicts) { ConflictView(list: list, conflict: $0) }
                    }
                }
                Section {
                    TextField("New item", text: $text)
                        .onSubmit {
                            let added = text
                            text = ""
                            Task { await list.add(added) }
                        }
                    ForEach(list.items.items) { TodoRow(list: list, item: $0) }
                        .onDelete { places in
                            let items = places.map { list.items.items[$0] }
                            Task { for item in items { await list.delete(item) } }
                        }
                } footer: {
                    StatusText(sync: list.sync)
                }
            }
            .navigationTitle("To do")
            .refreshable { await list.refresh() }
            .toolbar {
                Toggle("Done", isOn: $list.showsDone)
                Toggle("Online", isOn: $list.isOnline)
            }
            .alert("Something went wrong", isPresented: .constant(list.problem != nil)) {
                Button("OK") { list.problem = nil }
            } message: {
                Text(list.problem ?? "")
            }
        }
    }
}

/// A row of the list: a tap marks the item as done, and its text can be edited in place.
private struct TodoRow: View {
    let list: TodoList
    let item: TodoItem
    @State private var text = ""

    var body: some View {
        HStack {
            Button {
                Task { await list.setComplete(item, !item.complete) }
            } label: {
                Image(systemName: item.complete ? "checkmark.circle.fill" : "circle")
            }
            .accessibilityLabel(item.complete ? "Mark as not done" : "Mark as done")
            TextField("Text", text: $text)
                .onAppear { text = item.text }
                .onChange(of: item.text) { text = $1 }
                .onSubmit { Task { await list.rename(item, to: text) } }
        }
    }
}

/// A view of a conflict: mine and theirs, with a button for each.
private struct ConflictView: View {
    let list: TodoList
    let conflict: TodoList.Conflict

    var body: some View {
        VStack(alignment: .leading) {
            Text("Mine: \(conflict.mine?.text ?? "deleted")")
            Text("Theirs: \(conflict.theirs?.text ?? "deleted or unknown")")
            HStack {
                Button("Keep mine") { Task { await list.keepMine(conflict) } }
                    .disabled(!conflict.canKeepMine)
                Button("Take theirs") { Task { await list.takeTheirs(conflict) } }
            }
            .buttonStyle(.bordered)
        }
    }
}

private struct StatusText: View {
    let sync: LiveStatus

    var body: some View {
        switch sync.status {
        case .idle where sync.pendingCount == 0: Text("Everything is synced.")
        case .idle: Text("\(sync.pendingCount) changes are pending.")
        case .syncing(let progress):
            Text("Syncing: \(progress.sent) sent, \(progress.received) received")
        case .offline: Text("Offline; \(sync.pendingCount) changes are pending.")
        case .busy(let until): Text("The server is busy until \(until.formatted()).")
        case .blocked(by: .signIn): Text("Sign in to sync.")
        case .blocked(by: .rejectedOperations(let rejected)):
            Text("\(rejected.count) changes need a decision.")
        case .blocked(by: .failingRows(let rows)):
            Text("The server did not accept \(rows.count) changes.")
        case .blocked(by: .lostRows(let count)): Text("The restored server lost \(count) items.")
        case .blocked(by: .failure(_, let message)): Text(message)
        }
    }
}
#endif
