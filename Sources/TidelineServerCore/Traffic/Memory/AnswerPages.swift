// AnswerPages: pages and rows with their share of the memory for answers.

/// A builder of pages and rows within the memory for answers.
struct AnswerPages {
    let service: TableService

    /// Builds a page, with a reservation of memory.
    ///
    /// If no page of the table was read before, each row is assumed to have the maximum size.
    func makePage<Page>(
        of rows: Int,
        in table: Table,
        _ read: (PageReservation?) async throws -> Page
    ) async throws -> (page: Page, share: MemoryReservation?) {
        let limits = service.settings.limits
        let batch = AnswerReservation.ofBatch
        let answer = batch ?? AnswerReservation(in: service.settings.traffic.answers)
        let reservation = PageReservation(
            in: answer,
            likelyBytes: table.pageSize.likelyBytes(ofRows: rows)
                ?? PageSize.product(rows, limits.rowBytes),
            bytesMax: limits.pageBytes
        )
        do {
            return (try await read(reservation), batch == nil ? answer.share : nil)
        } catch is PageReservation.MemoryShortage {
            guard answer.mayWait else { throw ServerError.batchMemoryFull }
            try await reservation.wait()
            return (try await read(reservation), batch == nil ? answer.share : nil)
        }
    }

    /// Reads a row and builds its answer, with a reservation of memory if it is large.
    ///
    /// - Parameters:
    ///   - read: Reads the row. If it throws ``RowReservation/MemoryShortage``, the function waits for memory and
    ///     reads again.
    ///   - make: Builds the answer. For a row that exceeds the memory, it receives the state without bytes,
    ///     because an answer without a row does not wait.
    /// - Returns: The answer, with its reservation if it is large.
    /// - Throws: The errors of both, and ``ServerError/batchMemoryFull``.
    func makeRowAnswer(
        _ read: (RowReservation) async throws -> StoredRow?,
        _ make: (StoredRow?) throws -> ServerResponse
    ) async throws -> ServerResponse {
        let batch = AnswerReservation.ofBatch
        let reservation = batch ?? AnswerReservation(in: service.settings.traffic.answers)
        while true {
            do {
                var answer = try make(try await read(RowReservation(in: reservation)))
                let bytes = answer.body.count
                // As JSON it may be larger than it is stored.
                if bytes <= ResponseMemory.smallBytes || reservation.take(additional: bytes) {
                    if batch == nil { answer.share = reservation.share }
                    return answer
                }
            } catch let shortage as RowReservation.MemoryShortage {
                let answer = try make(StoredRow(json: [], state: shortage.state))
                if answer.status == 304 { return answer }
            }
            guard reservation.mayWait else { throw ServerError.batchMemoryFull }
            try await reservation.wait()
        }
    }
}
