func registerTidelineFunctions(on handle: OpaquePointer) throws {}
