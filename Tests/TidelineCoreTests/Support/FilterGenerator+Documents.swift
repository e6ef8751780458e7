// FilterGenerator+Documents: random JSON documents, and conditions on their members and elements.

import TidelineCore
import TidelineTestKit

extension FilterGenerator {
    static let documents = [
        #"{"s":"a","n":1,"b":true,"o":{"s":"ab","n":2.5},"l":["a",1]}"#,
        #"{"s":"A","n":1.0,"b":"true","o":{"s":"a","n":null}}"#,
        #"{"s":null,"n":"1","b":false,"o":[1],"l":[]}"#,
        #"{ "\u0073" : "\u0061" , "n" : 1e0 , "o" : null , "l" : [ "ab" , null ] }"#,
        #"{"s":"x","n":9007199254740993,"s":"a","l":[{"s":"a","n":1},{"s":"b","n":2}]}"#,
        #"{"s":"é","n":0.1,"b":1,"l":[["a"],["b",2]]}"#, #"{"s":"e\u0301","n":-0.0,"o":{}}"#,
        #"{"s":"2021-03-05T07:08:09.120Z","n":12345678901234567890,"l":"a"}"#,
        #"{"s":"2021-03-05T08:08:09.12+01:00","n":1e400,"l":{"s":1}}"#,
        #"{"s":"01234560-89AB-CDEF-0123-456789ABCDEF","n":3.1,"b":null}"#,
        #"{"s":"AP8=","n":-7,"l":[true,false,null]}"#, #"{"s":"\ud83d\ude00","n":1e15}"#,
        #"["a","ab",null,1,2.5,true]"#, #"[{"s":"a","n":1,"l":["a"]},{"s":"b","b":true}]"#,
        #"[["a","b"],[],[1]]"#, "[]", "[null]", #"["2021-03-05T07:08:09.120Z","2020-02-29"]"#,
        "{}", "null", "5", #""a""#, "true",
        String(repeating: "[", count: 64) + String(repeating: "]", count: 64),
        String(repeating: "[", count: 65) + String(repeating: "]", count: 65),
    ]

    private static let names = ["s", "n", "b", "o", "l"]

    private static let compared: [ExpressionType] = [
        .string, .integer, .number, .decimal, .dateTime, .date, .time, .guid, .boolean,
    ]

    /// Returns a member of a document, or an element.
    private mutating func part() -> QueryExpression {
        let isOfElement = elementsAround > 0 && random.chance(2, in: 3)
        var part =
            isOfElement
            ? QueryExpression(.element(random.below(elementsAround)))
            : QueryExpression(.field(random.pick(["j1", "l1"])))
        if !isOfElement || random.chance(1, in: 2) {
            part = .member(random.pick(Self.names), of: part)
        }
        return random.chance(1, in: 4) ? .member(random.pick(Self.names), of: part) : part
    }

    /// Returns an expression with an array; within a condition on elements, one of the element.
    private mutating func list() -> QueryExpression {
        let start =
            elementsAround > 0
            ? QueryExpression(.element(elementsAround - 1))
            : QueryExpression(.field(random.pick(["j1", "l1"])))
        return random.chance(1, in: 2) ? start : .member(random.pick(Self.names), of: start)
    }

    private mutating func anyElement(_ depth: Int) -> QueryExpression {
        let list = list()
        elementsAround += 1
        let condition =
            random.chance(1, in: 8)
            ? QueryExpression(.value(true))
            : random.chance(1, in: 2) ? documentCondition(depth - 1) : condition(depth - 1)
        elementsAround -= 1
        return QueryExpression(.anyElement(list, elementsAround, condition))
    }

    mutating func documentCondition(_ depth: Int) -> QueryExpression {
        switch random.below(10) {
        case 0, 1,
            2 where depth > 0:
            return anyElement(depth)
        case 3: return part()
        case 4:
            let function = random.pick([Function.contains, .startswith, .endswith])
            let text = QueryExpression(.value(literal(.string)))
            return QueryExpression(.call(function, [part(), text]))
        case 5:
            let values = (0...random.below(3)).map { _ in
                QueryExpression(.value(literal(random.pick(Self.compared))))
            }
            return QueryExpression(.isIn(part(), values))
        case 6:
            let count = QueryExpression(.elementCount(list()))
            return compare(count, QueryExpression(.value(.integer(Int64(random.below(4))))))
        case 7:
            let type = random.pick(EdmType.allCases)
            let name = QueryExpression(.value(.string(type.rawValue)))
            let cast = QueryExpression(.call(.cast, [part(), name]))
            return compare(cast, value(type.type, 1), hasOrder: type != .boolean)
        case 8: return compare(part(), part())
        default: return compare(part(), value(random.pick(Self.compared), 1))
        }
    }

    private mutating func compare(
        _ left: QueryExpression,
        _ right: QueryExpression,
        hasOrder: Bool = true
    ) -> QueryExpression {
        let sides = random.chance(1, in: 2) ? (left, right) : (right, left)
        let isEqual = random.chance(1, in: 2) || !hasOrder
        let comparison = isEqual ? random.pick([.eq, .ne]) : random.pick(Comparison.allCases)
        return QueryExpression(.compare(comparison, sides.0, sides.1))
    }
}
