// TodoApp: the app of the tutorial in SwiftUI.
//
// Add this folder and ../Model to an app target in Xcode that depends on Tideline. The tests
// of this package only type-check them against stand-ins; docs/apple.md explains what that means.

#if canImport(SwiftUI)
import Foundation
import SwiftUI
import Tideline

@main
struct TodoApp: App {
    @State private var list: TodoList?
    @State private var problem: String?

    var body: some Scene {
        WindowGroup {
            if let list {
                TodoListView(list: list)
            } else if let problem {
                ContentUnavailableView(
                    "The list cannot be opened",
                    systemImage: "xmark",
                    description: Text(problem)
                )
            } else {
                ProgressView().task { await open() }
            }
        }
    }

    private func open() async {
        do {
            // For a phone in the same network, use this machine's address instead of 127.0.0.1.
            guard let endpoint = URL(string: "http://127.0.0.1:8080") else { return }
            let path = URL.documentsDirectory.appending(path: "todo.sqlite")
                .path(percentEncoded: false)
            list = try await TodoList.open(endpoint: endpoint, path: path)
        } catch {
            problem = "\(error)"
        }
    }
}
#endif
