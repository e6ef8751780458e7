// PageBytes: collects rows of a page.

/// The bytes of a page that grows row by row, within its bounds.
struct PageBytes {
    private(set) var bytes: [UInt8]
    private(set) var rows = 0
    private let opening: Int
    private let rowsMax: Int
    private let bytesMax: Int
    private let reservation: PageReservation?
    private var reservedBytes: Int

    init(opening: [UInt8], rowsMax: Int, bytesMax: Int, reservation: PageReservation?) {
        bytes = opening
        self.opening = opening.count
        self.rowsMax = rowsMax
        self.bytesMax = bytesMax
        self.reservation = reservation
        reservedBytes = reservation?.begin() ?? .max
    }

    /// Adds a row; returns false, without adding it, if the page is full.
    mutating func add(_ row: () -> [UInt8]) throws -> Bool {
        guard rows < rowsMax else { return false }
        let json = row()
        let comma = rows > 0 ? 1 : 0
        guard rows == 0 || bytes.count + comma + json.count - opening <= bytesMax else {
            return false
        }
        if comma == 1 { bytes.append(UInt8(ascii: ",")) }
        bytes += json
        if let reservation, bytes.count > reservedBytes {
            reservedBytes = try reservation.more(for: bytes.count)
        }
        rows += 1
        return true
    }
}
