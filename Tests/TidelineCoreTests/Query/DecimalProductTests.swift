// DecimalProductTests: products of decimals that crash in Foundation's multiplication.

import Foundation
import Testing
import TidelineCore

@Suite struct DecimalProductTests {
    private static let nines = String(repeating: "9", count: 38)

    /// Pairs of factors and their products; nil for null.
    static let cases: [(String, String, String?)] = [
        ("1e-128", "1e-128", "0"),
        ("1e-128", "0.1", "0"),
        ("-1e-128", "0.5", "0"),
        ("1e-64", "1e-64", "0"),
        ("7e-100", "1e-64", "0"),
        (nines + "e-100", nines + "e-100", "0"),
        (nines + "e-128", nines + "e-128", "0"),
        ("2e-20", "3e-18", "6e-38"),
        ("2e-20", "3e-19", "1e-38"),
        ("1e-128", "1e127", "0.1"),
        ("0", "1e-128", "0"),
        ("1e100", "1e100", nil),
        ("1.5", "-2", "-3"),
    ]

    @Test("The product of two decimals is exact or null in either order", arguments: cases)
    func products(_ one: String, _ two: String, _ product: String?) throws {
        func decimal(_ text: String) throws -> Value {
            .decimal(try #require(Decimal(string: text)))
        }
        let wanted = try product.map(decimal) ?? .null
        let found = ScalarNumbers.apply(.mul, try decimal(one), try decimal(two))
        #expect(found == wanted, "\(found)")
        #expect(ScalarNumbers.apply(.mul, try decimal(two), try decimal(one)) == wanted)
    }

    @Test("No operation on two extreme decimals crashes") func everyOperationHasAnEnd() throws {
        let values = try [
            "1e127", "-9e127", Self.nines + "e89", "1e-128", Self.nines + "e-128", "-7e-100", "3",
            "0", "0.1", Self.nines, "1e64", "1e-64", "-1",
        ].map { Value.decimal(try #require(Decimal(string: $0))) }
        let operations: [Arithmetic] = [.add, .sub, .mul, .div, .divby, .mod]
        for one in values {
            for two in values {
                for operation in operations {
                    let result = ScalarNumbers.apply(operation, one, two)
                    for function in [Function.floor, .ceiling, .round, .roundAway] {
                        _ = ScalarFunctions.apply(function, [result])
                    }
                    _ = ValueOrder.sort(result, one)
                    _ = ScalarNumbers.negate(result)
                }
            }
        }
    }
}
