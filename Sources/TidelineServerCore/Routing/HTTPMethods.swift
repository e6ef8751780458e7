// HTTPMethods: the value of `Allow`.

/// The methods of a resource as the header field `Allow` lists them.
enum HTTPMethods {
    /// Returns the methods as a list, with HEAD wherever GET is supported (RFC 9110 section 9.1).
    static func listed(_ methods: [String]) -> String {
        methods.flatMap { $0 == "GET" ? ["GET", "HEAD"] : [$0] }.joined(separator: ", ")
    }
}
