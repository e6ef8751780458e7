// OfficeViews: today's visits, the totals, and the changes that the server rejected.

#if canImport(SwiftUI)
import Foundation
import SwiftUI
import Tideline

struct DayView: View {
    @State private var screen: LiveValue<DayScreen>

    init(_ service: FieldService) {
        let day = Calendar.current.dateInterval(of: .day, for: .now) ?? DateInterval()
        _screen = State(initialValue: service.screen(ofDay: day))
    }

    var body: some View {
        List {
            Section("Visits") {
                ForEach(screen.value?.entries ?? []) { entry in
                    VStack(alignment: .leading) {
                        Text(entry.job?.title ?? "The job is not on this device.")
                        Text(entry.customer?.name ?? "")
                        Text(entry.customer?.address.street ?? "")
                    }
                }
            }
            Section("Urgent jobs") {
                ForEach(screen.value?.urgentJobs ?? []) { Text($0.title) }
            }
        }
        .navigationTitle("Today")
    }
}

struct TotalsView: View {
    let totals: LiveValue<Totals>

    var body: some View {
        List {
            Section("By status") { ForEach(totals.value?.byStatus ?? []) { line($0) } }
            Section("By customer") { ForEach(totals.value?.byCustomer ?? []) { line($0) } }
        }
        .navigationTitle("Totals")
    }

    private func line(_ line: Totals.Line) -> some View {
        HStack {
            Text(line.name)
            Text("\(line.minutes) minutes")
            Text(price(line.cents))
        }
    }
}

struct RejectedChangesView: View {
    let service: FieldService
    @State private var run: DryRun?

    var body: some View {
        List {
            Section("Before sending") {
                Button("Check the changes") { Task { run = await service.dryRun() } }
                if let run {
                    Text(run.isAccepted ? "All would be accepted." : "Some need attention or wait.")
                }
            }
            Section("Rejected") { ForEach(service.rejectedChanges) { row($0) } }
        }
        .navigationTitle("Rejected changes")
    }

    private func row(_ change: RejectedChange) -> some View {
        VStack(alignment: .leading) {
            Text(change.title)
            Text(change.reason)
            HStack {
                Button("Keep mine") { Task { await service.keepMine(change) } }
                    .disabled(!change.error.canRetry)
                Button("Discard") { Task { await service.discard(change) } }
            }
            .buttonStyle(.bordered)
            if let parent = change.missingParent {
                Button("Restore the \(parent)") {
                    Task { await service.restoreParent(of: change) }
                }
            }
            if change.missingParent == Customer.tableName {
                ForEach(service.customers.items) { customer in
                    Button("Move to \(customer.name)") {
                        Task { await service.move(change, to: customer) }
                    }
                }
            }
        }
    }
}
#endif
