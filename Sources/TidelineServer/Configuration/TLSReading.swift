// TLSReading: `tls` of a configuration file, and the certificate and key that it names.

import TidelineTLS

extension ConfigurationKey {
    static let tls: [ConfigurationKey] = [
        ConfigurationKey("certificateFile") { node, configuration, directory in
            configuration.tls?.certificateFile = ServerConfiguration.path(node, directory) ?? ""
        } show: {
            $0.tls?.certificateFile
        },
        ConfigurationKey("keyFile") { node, configuration, directory in
            configuration.tls?.keyFile = ServerConfiguration.path(node, directory) ?? ""
        } show: {
            $0.tls.map { _ in ConfigurationKey.someFile }
        },
    ]
}

extension ServerConfiguration {
    mutating func readTLS(_ node: ConfigurationNode, directory: String?) {
        let count = node.problems.lines.count
        tls = TLS(certificateFile: "", keyFile: "")
        read(node, ConfigurationKey.tls, directory: directory)
        guard node.problems.lines.count == count, let read = tls else { return }
        guard !read.certificateFile.isEmpty, !read.keyFile.isEmpty else {
            return node.wrong("both certificateFile and keyFile")
        }
        do throws(ConfigurationError) {
            _ = try read.makeIdentity()
        } catch {
            for fault in error.faults { node.problems.add("", fault) }
        }
    }
}

extension ServerConfiguration.TLS {
    /// Reads the certificate and key files.
    ///
    /// - Throws: ``ConfigurationError`` with the configuration key and the file.
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
