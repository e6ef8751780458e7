// FieldService: the model of the app, without SwiftUI.

import Foundation
import Observation
import Tideline

/// The model of the views: the customers, the content of the other screens, and the actions of the user.
@Observable
@MainActor
final class FieldService {
    /// The customers that match ``searchText`` and ``city``, in the order of the user's language.
    let customers: LiveQuery<Customer>
    let totals: LiveValue<Totals>
    /// The state of sync, and the changes that the server rejected.
    let sync: LiveStatus
    /// The error of the last action as a message for the user; nil if it succeeded.
    var problem: String?

    /// The words to search for, as the user types them.
    var searchText = "" {
        didSet { showCustomers() }
    }

    /// The city whose customers are shown; nil for all.
    var city: String? {
        didSet { showCustomers() }
    }

    let client: SyncClient

    init(_ client: SyncClient) throws {
        self.client = client
        customers = LiveQuery(try client.syncTable(Customer.self), sortedBy: Self.order)
        totals = LiveValue(client.syncContext) { try Totals($0) }
        sync = try LiveStatus(client)
    }

    /// Opens the store of a device, which works offline from now on.
    static func open(
        endpoint: URL,
        store: any LocalStore,
        transport: (any Transport)? = nil
    ) async throws -> FieldService {
        let client = try await SyncClient.open(
            endpoint: endpoint,
            store: store,
            tables: [Customer.self, Job.self, Visit.self, Part.self],
            conflicts: .merge,
            transport: transport
        )
        return try FieldService(client)
    }

    private static var order: [SortTerm<Customer>] { [.ascending(\.name, .localized)] }

    private func showCustomers() {
        let (words, city) = (searchText + "*", city)
        customers.update(
            where: { customer in
                let isInCity = city.map { customer.address.city == $0 } ?? .always()
                return customer.matching(words) && isInCity
            },
            sortedBy: Self.order
        )
    }

    // MARK: - Screens

    func screen(ofCustomer id: Customer.ID) -> LiveValue<CustomerScreen> {
        LiveValue(client.syncContext) { try CustomerScreen($0, customer: id) }
    }

    func screen(ofJob id: Job.ID) -> LiveValue<JobScreen> {
        LiveValue(client.syncContext) { try JobScreen($0, job: id) }
    }

    func screen(ofDay day: DateInterval) -> LiveValue<DayScreen> {
        LiveValue(client.syncContext) { [city] in try DayScreen($0, day: day, city: city) }
    }

    // MARK: - Actions, which need no network

    /// Stores a new or changed record.
    func save<Record: SyncRecord>(_ record: Record) async {
        await attempt { try await self.client.syncTable(Record.self).upsert(record) }
    }

    /// Stores a job and its first visit, which reach the server together.
    func plan(_ job: Job, _ visit: Visit) async {
        await attempt {
            try await self.client.syncContext.transaction { transaction in
                try transaction.table(Job.self).insert(job)
                try transaction.table(Visit.self).insert(visit)
            }
        }
    }

    /// Cancels all open jobs of a customer.
    func cancelJobs(of customer: Customer) async {
        await attempt {
            try await self.client.syncTable(Job.self)
                .update(where: { $0.customerID == customer.id && $0.status == .open }) {
                    $0.status = .cancelled
                }
        }
    }

    /// Deletes a record, and applies the delete rules of the references to it.
    func delete<Record: SyncRecord>(_ record: Record) async {
        await attempt { try await self.client.syncTable(Record.self).delete(id: record.id) }
    }

    // MARK: - Sync

    /// Sends pending changes and fetches new ones: pull to refresh.
    func refresh() async {
        await attempt { try await self.client.syncOnce(deadline: .seconds(30)) }
    }

    /// Asks the server what it would do with the pending changes; nil if it cannot be asked.
    func dryRun() async -> DryRun? {
        var run: DryRun?
        await attempt { run = try await self.client.syncContext.dryRun() }
        return run
    }

    /// The changes that wait for the user, without those that failed only because of another one.
    var rejectedChanges: [RejectedChange] {
        sync.errors.filter { !$0.isConsequence }.map { RejectedChange(error: $0) }
    }

    /// Sends a change again, based on the newest row of the server.
    func keepMine(_ change: RejectedChange) async {
        await attempt { try await change.error.keepMine() }
    }

    /// Restores the record whose absence is the reason of the rejection.
    func restoreParent(of change: RejectedChange) async {
        await attempt { try await change.error.restoreParent() }
    }

    /// Gives a job whose customer is missing to another customer.
    func move(_ change: RejectedChange, to customer: Customer) async {
        await attempt { try await change.error.moveToParent(customer.id) }
    }

    /// Drops a change: the record becomes that of the server.
    func discard(_ change: RejectedChange) async {
        await attempt { try await change.error.cancelOperationAndDiscardItem() }
    }

    private func attempt<Result>(_ action: () async throws -> Result) async {
        do {
            _ = try await action()
            problem = nil
        } catch let error as SyncError {
            problem = error.message
        } catch {
            problem = "\(error)"
        }
    }
}
