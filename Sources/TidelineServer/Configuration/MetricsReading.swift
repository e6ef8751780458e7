// MetricsReading: `metrics` of a configuration file, and the key that it names.

import Foundation

extension ConfigurationKey {
    static let metrics = [
        ConfigurationKey("keyFile") { node, configuration, directory in
            configuration.metrics.keyFile = ServerConfiguration.path(node, directory)
        } show: {
            $0.metrics.keyFile.map { _ in ConfigurationKey.someFile }
        }
    ]
}

extension ServerConfiguration {
    mutating func readMetrics(_ node: ConfigurationNode, directory: String?) {
        let count = node.problems.lines.count
        read(node, ConfigurationKey.metrics, directory: directory)
        guard node.problems.lines.count == count else { return }
        do throws(ConfigurationError) {
            _ = try metrics.readKey()
        } catch {
            for fault in error.faults { node.problems.add("", fault) }
        }
    }
}

extension ServerConfiguration.Metrics {
    private static let keyBytes = 16...4096

    /// Returns the key in the file, without surrounding white space; nil if there is none.
    ///
    /// - Throws: ``ConfigurationError`` with the configuration key and the file.
    func readKey() throws(ConfigurationError) -> [UInt8]? {
        guard let keyFile else { return nil }
        func fault(_ text: String) -> ConfigurationError {
            ConfigurationError(["metrics.keyFile: '\(keyFile)': \(text)"])
        }
        guard let file = FileHandle(forReadingAtPath: keyFile),
            let data = try? file.read(upToCount: 2 * Self.keyBytes.upperBound) ?? Data()
        else { throw fault("The file cannot be read.") }
        try? file.close()
        let text = String(decoding: data, as: UTF8.self)
        let key = Array(text.trimmingCharacters(in: .whitespacesAndNewlines).utf8)
        // The key is sent in a header field, which limits its characters.
        guard Self.keyBytes.contains(key.count), key.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw fault(
                "A key has \(Self.keyBytes.lowerBound) to \(Self.keyBytes.upperBound) characters of "
                    + "ASCII without spaces. Create one with: openssl rand -hex 32"
            )
        }
        return key
    }
}
