// RejectedChange: a change of the user that the server rejected.

import Tideline

/// A change that the server rejected, as its screen shows it.
///
/// It is kept on the device, after a restart too, until the user decides.
struct RejectedChange: Identifiable {
    let error: TableOperationError

    var id: String { error.id }

    /// The reason, and what to do about it.
    var reason: String { error.message }

    /// The record of the change, in the words of the user.
    var title: String {
        guard let row = error.item ?? error.serverItem ?? error.base else { return error.table }
        let name =
            switch error.table {
            case Customer.tableName: try? row.decode(Customer.self).name
            case Job.tableName: try? row.decode(Job.self).title
            case Visit.tableName: try? row.decode(Visit.self).technician
            default: try? row.decode(Part.self).name
            }
        return "\(error.table) \(name ?? error.itemID)"
    }

    /// The table of the record that the change refers to and the server does not have; nil for another reason.
    var missingParent: String? {
        guard let reference = error.brokenReference else { return nil }
        return reference.reason == .parentNotFound ? reference.table : nil
    }
}
