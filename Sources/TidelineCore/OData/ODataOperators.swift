// ODataOperators: the operators and functions in the syntax of both dialects.

/// An operator between two operands.
enum ODataOperator: Hashable {
    case any
    case all
    case compare(Comparison)
    case isIn
    case has
    case arithmetic(Arithmetic)

    init?(_ word: String) {
        switch word {
        case "or": self = .any
        case "and": self = .all
        case "in": self = .isIn
        case "has": self = .has
        default:
            if let comparison = Comparison(rawValue: word) {
                self = .compare(comparison)
            } else if let arithmetic = Arithmetic(rawValue: word) {
                self = .arithmetic(arithmetic)
            } else {
                return nil
            }
        }
    }

    /// Returns the precedence: a higher value binds tighter.
    ///
    /// All operators are left-associative.
    ///
    /// In v4, `lt` binds tighter than `eq`; in v3, they have the same precedence.
    func precedence(in dialect: ODataDialect) -> Int {
        switch self {
        case .any: 1
        case .all: 2
        case .compare(.eq), .compare(.ne): 3
        case .compare, .isIn, .has: dialect == .v4 ? 4 : 3
        case .arithmetic(.add), .arithmetic(.sub): 5
        case .arithmetic: 6
        }
    }
}

extension Function {
    /// Finds the function with this name in a dialect; both dialects accept most names of the other
    /// dialect.
    ///
    /// `substringof` is `contains` with its arguments swapped.
    init?(oDataName: String, dialect: ODataDialect) {
        let name = dialect == .v4 ? oDataName.lowercased() : oDataName
        switch name {
        case "substringof": self = .contains
        case "round": self = dialect == .v4 ? .round : .roundAway
        case "matchespattern" where dialect == .v4: self = .matchesPattern
        case "roundAway", "has", "localizedContains", "localizedCaseInsensitiveContains": return nil
        default: self.init(rawValue: name)
        }
    }

    /// The number of arguments that the function takes.
    package var arity: ClosedRange<Int> {
        switch self {
        case .now: 0...0
        case .contains, .localizedContains, .localizedCaseInsensitiveContains, .startswith,
            .endswith, .matchesPattern, .indexof,
            .concat,
            .cast, .isof, .has:
            2...2
        case .substring: 2...3
        case .replace: 3...3
        case .length, .tolower, .toupper, .trim, .year, .month, .day, .hour, .minute, .second,
            .totaloffsetminutes, .fractionalseconds, .date, .time, .floor, .ceiling, .round,
            .roundAway:
            1...1
        }
    }

    /// Whether the result is a Boolean that is false if an argument is null.
    package var isCondition: Bool {
        switch self {
        case .contains, .localizedContains, .localizedCaseInsensitiveContains, .startswith,
            .endswith, .matchesPattern, .isof, .has:
            true
        case .length, .indexof, .substring, .replace, .tolower, .toupper, .trim, .concat, .year,
            .month, .day, .hour, .minute, .second, .totaloffsetminutes, .fractionalseconds, .date,
            .time, .floor, .ceiling, .round, .roundAway, .now, .cast:
            false
        }
    }
}
