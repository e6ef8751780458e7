// BodyRules: the checks on a body before it is read.

extension TableService {
    /// Rejects bodies of other types, and those that would have to be decoded first.
    func checkBody(_ call: TableCall, isPatch: Bool = false) throws {
        if !call.request.body.isEmpty, call.head.isCoded { throw ServerError.codedBody }
        if isPatch { return }
        guard let type = call.head.bodyType else {
            if call.generation == .datasync { throw ServerError.notJSON }
            return
        }
        if type != .json { throw ServerError.notJSON }
    }

    /// Rejects a patch that tests values for a caller who may not read them.
    func checkTests(_ patch: JSONPatch, _ call: TableCall, _ table: Table) throws {
        guard patch.readsValues, call.user?.isOperator != true else { return }
        guard let access = table.definition.permissions.read, access != .disabled else {
            throw ServerError.testNotAllowed(
                allowedMethods(table.name, isRow: true, call.generation)
            )
        }
        try require(access, call.user)
    }
}
