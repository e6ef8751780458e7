// CustomerView: a customer with the newest open jobs, and the screen of a job.

#if canImport(SwiftUI)
import Foundation
import SwiftUI
import Tideline

struct CustomerView: View {
    let service: FieldService
    @State private var screen: LiveValue<CustomerScreen>
    @State private var title = ""

    init(_ service: FieldService, _ id: Customer.ID) {
        self.service = service
        _screen = State(initialValue: service.screen(ofCustomer: id))
    }

    var body: some View {
        List {
            if let content = screen.value, let customer = content.customer {
                Section("Newest open jobs") {
                    ForEach(content.openJobs) { job in
                        NavigationLink(job.title) { JobView(service, job.id) }
                    }
                    TextField("New job", text: $title).onSubmit { add(customer) }
                }
                Section("All jobs") {
                    Text("Open: \(content.jobCounts[.open] ?? 0)")
                    Text("Done: \(content.jobCounts[.done] ?? 0)")
                    Button("Cancel the open jobs") {
                        Task { await service.cancelJobs(of: customer) }
                    }
                }
            }
        }
        .navigationTitle("\(screen.value?.customer?.name ?? "")")
    }

    private func add(_ customer: Customer) {
        let job = Job(customerID: customer.id, title: title, openedAt: .now)
        title = ""
        Task { await service.save(job) }
    }
}

struct JobView: View {
    let service: FieldService
    @State private var screen: LiveValue<JobScreen>

    init(_ service: FieldService, _ id: Job.ID) {
        self.service = service
        _screen = State(initialValue: service.screen(ofJob: id))
    }

    var body: some View {
        List {
            if let content = screen.value, let job = content.job {
                Section("Visits") {
                    ForEach(content.visits) { visit in
                        HStack {
                            Text(visit.start?.formatted() ?? "Not planned")
                            Text(visit.technician)
                        }
                    }
                    Text("\(content.minutes) minutes")
                }
                Section("Parts") {
                    ForEach(content.parts) { Text("\($0.quantity) x \($0.name)") }
                    Text(price(content.cents))
                }
                Button("Done") {
                    var done = job
                    done.status = .done
                    Task { [done] in await service.save(done) }
                }
                .disabled(job.status != .open)
            }
        }
        .navigationTitle("\(screen.value?.job?.title ?? "")")
    }
}

/// Returns an amount of money as text.
func price(_ cents: Int) -> String {
    (Decimal(cents) / 100).formatted(.currency(code: "EUR"))
}
#endif
