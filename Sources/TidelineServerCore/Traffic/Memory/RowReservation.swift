// RowReservation: memory for rows.
//
// Only the row itself shows how large it is: the database reserves memory when its cursor is on the row, before it
// copies any of it. If there is too little memory, the read returns the state of the row and releases it. A request
// that gets no row does not wait, and a waiting request keeps no reservation.

/// The memory reservation for a row that is read by itself, made before the row is built.
package final class RowReservation: Sendable {
    /// The error for too little memory, with the state of the row.
    package struct MemoryShortage: Error {
        package let state: RowState
    }

    private let reservation: AnswerReservation

    package init(in reservation: AnswerReservation) {
        self.reservation = reservation
    }

    /// Reserves memory for a row of this many bytes; small rows need none.
    ///
    /// - Throws: ``MemoryShortage`` if there is too little.
    package func take(bytes: Int, of state: RowState) throws(MemoryShortage) {
        guard bytes > ResponseMemory.smallBytes else { return }
        guard reservation.take(additional: bytes) else { throw MemoryShortage(state: state) }
    }
}
