// PasswordFilterTests: printed and logged text contains no passwords, however they are written.

import Testing
import TidelineServer
import TidelineServerCore

@Suite struct PasswordFilterTests {
    @Test(
        "A password is removed from text, however it is written",
        arguments: [
            ("postgres://u:hunter2@h:5432/d", "postgres://***@h:5432/d"),
            ("'postgresql://u:hunter2@h/d' is unknown", "'postgresql://***@h/d' is unknown"),
            ("postgres://u:hun/ter2@x@h/d", "postgres://***@h/d"),
            ("POSTGRES://u:hunter 2'@h/d", "POSTGRES://***@h/d"),
            ("https://u:hunter2@a.example/x?y=1", "https://***@a.example/x?y=1"),
            (
                "postgres://h/d?user=u&password=hunter2&x=1",
                "postgres://h/d?user=u&password=***&x=1"
            ),
            ("host=h PASSWORD=hunter2 user=u", "host=h PASSWORD=*** user=u"),
            ("password='hunter 2' user=u", "password=*** user=u"),
            (#"sslpassword='hun\'ter2' a=b"#, "sslpassword=*** a=b"),
            ("postgres://h/d", "postgres://h/d"), ("anna@example.org", "anna@example.org"),
            ("https://a.example/ and b@c", "https://a.example/ and b@c"), ("", ""),
            ("a\npostgres://u:hunter2@h\nb", "a\npostgres://***@h\nb"),
        ]
    )
    func passwordsAreRemoved(text: String, expected: String) {
        #expect(PasswordFilter.filtered(text) == expected)
    }

    @Test(
        "A mistake in a configuration file shows no password",
        arguments: [
            #"{"database": "postgres://u:hunter2@h/d" "x"}"#,
            #"{"database": "postgres://u:\qhunter2@h/d"}"#,
            #"{"listen": "postgres://u:hunter2@h/d"}"#,
            #"{"publicURL": "ftp://u:hunter2@h/d"}"#,
            #"{"loops": "postgres://u:hunter2@a-long-name.example.org/d"}"#,
            #"{"replica": "postgrs://u:hunter2@h/d"}"#,
            #"{"database": "postgres//u:hunter2@h/d"}"#,
        ]
    )
    func mistakesInFiles(text: String) {
        let error = #expect(throws: ConfigurationError.self) {
            try ServerConfiguration(json: Array(text.utf8))
        }
        let shown = PasswordFilter.filtered("\(error?.description ?? "")")
        #expect(!shown.contains("hunter2") && !shown.isEmpty, "\(shown)")
    }
}
