// TLSReading: `tls` of a configuration file, and what a server makes of it.

import TidelineTLS

extension ServerConfiguration {
    mutating func readTLS(_ node: ConfigurationNode, directory: String?) {
        var files: [String: String] = [:]
        let count = node.problems.lines.count
        for (name, node) in node.object(allowed: ["certificateFile", "keyFile"]) {
            files[name] = Self.path(node, directory)
        }
        guard node.problems.lines.count == count else { return }
        guard let certificateFile = files["certificateFile"], let keyFile = files["keyFile"] else {
            return node.wrong("both certificateFile and keyFile")
        }
        let read = TLS(certificateFile: certificateFile, keyFile: keyFile)
        tls = read
        do throws(ConfigurationError) {
            _ = try read.makeIdentity()
        } catch {
            for fault in error.faults { node.problems.add("", fault) }
        }
    }
}

extension ServerConfiguration.TLS {
    /// Reads the files.
    ///
    /// - Throws: ``ConfigurationError`` with the key and the file that it is about.
    func makeIdentity() throws(ConfigurationError) -> TLSIdentity {
        do throws(TLSError) {
            return try TLSIdentity(certificateFile: certificateFile, keyFile: keyFile)
        } catch {
            let isKey = [.keyUnusable, .keysDiffer].contains(error.code)
            let isKeyFile = isKey || error.message.hasPrefix("'\(keyFile)'")
            throw ConfigurationError([
                "tls.\(isKeyFile ? "keyFile" : "certificateFile"): \(error.message)"
            ])
        }
    }
}
