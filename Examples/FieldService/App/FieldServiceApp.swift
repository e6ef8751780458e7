// FieldServiceApp: the field-service app in SwiftUI.
//
// Add this folder and ../Model to an app target in Xcode that depends on Tideline. The tests
// of this package only type-check them against stand-ins; docs/apple.md explains what that means.

#if canImport(SwiftUI)
import Foundation
import SwiftUI
import Tideline

@main
struct FieldServiceApp: App {
    @State private var service: FieldService?
    @State private var problem: String?

    var body: some Scene {
        WindowGroup {
            if let service {
                HomeView(service: service)
            } else if let problem {
                ContentUnavailableView(
                    "The data cannot be opened",
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
            let path = URL.documentsDirectory.appending(path: "field-service.sqlite")
                .path(percentEncoded: false)
            let service = try await FieldService.open(
                endpoint: endpoint,
                store: SQLiteStore(path: path)
            )
            try service.client.startSyncing()
            self.service = service
        } catch {
            problem = "\(error)"
        }
    }
}

/// The first screen: the other screens, and the customers.
struct HomeView: View {
    @Bindable var service: FieldService
    @State private var name = ""

    var body: some View {
        NavigationStack {
            List {
                Section("Office") {
                    NavigationLink("Today") { DayView(service) }
                    NavigationLink("Totals") { TotalsView(totals: service.totals) }
                    NavigationLink("Rejected changes: \(service.rejectedChanges.count)") {
                        RejectedChangesView(service: service)
                    }
                }
                Section("Customers") {
                    ForEach(service.customers.items) { customer in
                        NavigationLink(customer.name) { CustomerView(service, customer.id) }
                    }
                    .onDelete { places in
                        let customers = places.map { service.customers.items[$0] }
                        Task { for customer in customers { await service.delete(customer) } }
                    }
                    TextField("New customer", text: $name).onSubmit { add() }
                }
            }
            .navigationTitle("Field service")
            .searchable(text: $service.searchText)
            .refreshable { await service.refresh() }
            .alert("Something went wrong", isPresented: .constant(service.problem != nil)) {
                Button("OK") { service.problem = nil }
            } message: {
                Text(service.problem ?? "")
            }
        }
    }

    private func add() {
        let customer = Customer(number: name, name: name)
        name = ""
        Task { await service.save(customer) }
    }
}
#endif
