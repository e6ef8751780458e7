// Facts: filters of the classic protocol, with the rows of the fixture that each one matches.
//
// The original facts follow SQL's three-valued logic; our filters are two-valued, so 21, 22, 26, 28,
// 29, 65 and 67 also match p5. Fact 45 is only for `pieces` as a number, not as an integer.

import Foundation
import TidelineCore

struct Fact: Sendable, CustomStringConvertible {
    let number: Int
    let filter: String
    let ids: [String]

    init(_ number: Int, _ filter: String, _ ids: String) {
        self.number = number
        self.filter = filter
        self.ids = ids.split(separator: " ").map(String.init)
    }

    var description: String { "\(number): \(filter)" }

    static let all: [Fact] = [
        Fact(1, "pieces eq 3", "p1"),
        Fact(2, "pieces ne 3", "p2 p3 p4 p5 p6 p7 p8"),
        Fact(3, "pieces gt 6", "p2 p4 p6"),
        Fact(4, "pieces ge 6", "p2 p4 p6 p8"),
        Fact(5, "pieces lt 3", "p3 p5"),
        Fact(6, "pieces le 3", "p1 p3 p5"),
        Fact(7, "(weight gt 7f)", "p1"),
        Fact(8, "(weight ge 2.25d)", "p1 p2 p4 p8"),
        Fact(9, "(price eq 15.00M)", "p3"),
        Fact(10, "(pieces ne 24L)", "p1 p3 p4 p5 p6 p7 p8"),
        Fact(11, "(weight eq -1.5)", "p7"),
        Fact(12, "weight lt -1", "p7"),
        Fact(13, "label eq 'Zebra mug'", "p7"),
        Fact(14, "label eq 'O''Hara prints'", "p3"),
        Fact(15, "note eq 'back\\slash'", "p6"),
        Fact(16, "note eq 'a?b'", "p7"),
        Fact(17, "note eq ''", "p3"),
        Fact(18, "note eq null", "p1 p5"),
        Fact(19, "null eq note", "p1 p5"),
        Fact(20, "note ne null", "p2 p3 p4 p6 p7 p8"),
        Fact(21, "label ne 'Zebra mug'", "p1 p2 p3 p4 p5 p6 p8"),
        Fact(22, "not(label eq 'Zebra mug')", "p1 p2 p3 p4 p5 p6 p8"),
        Fact(23, "fragile", "p2 p3 p7"),
        Fact(24, "fragile eq true", "p2 p3 p7"),
        Fact(25, "fragile eq false", "p1 p4 p6 p8"),
        Fact(26, "not fragile", "p1 p4 p5 p6 p8"),
        Fact(27, "not(not(fragile))", "p2 p3 p7"),
        Fact(28, "not (fragile eq false)", "p2 p3 p5 p7"),
        Fact(29, "fragile ne true", "p1 p4 p5 p6 p8"),
        Fact(30, "((weight le 7f) and (fragile eq true))", "p2 p3 p7"),
        Fact(31, "pieces eq 3 or pieces eq 5 and fragile", "p1 p7"),
        Fact(32, "(pieces eq 3 or pieces eq 5) and fragile", "p7"),
        Fact(33, "not(fragile) and (depot eq 'KRK' or depot eq 'GDN')", "p1 p4 p6"),
        Fact(34, "depot eq 'KRK' or depot eq 'LDZ'", "p4 p6 p7 p8"),
        Fact(35, "((depot eq 'KRK') or (depot eq 'WAW') or (depot eq 'LDZ'))", "p2 p4 p5 p6 p7 p8"),
        Fact(36, "((pieces ge 5) and (pieces le 7))", "p6 p7 p8"),
        Fact(37, "(1 eq 1)", "p1 p2 p3 p4 p5 p6 p7 p8"),
        Fact(38, "(1 eq 0)", ""),
        Fact(39, "((1 eq 1) and startswith(label,'Z'))", "p7"),
        Fact(40, "((1 eq 0) or (price le 5.00d))", "p1 p5 p6"),
        Fact(41, "pieces add 2 eq 5", "p1"),
        Fact(42, "((pieces add 20) gt 26)", "p2 p4 p6"),
        Fact(43, "((price sub 1.99d) le weight)", "p1 p6"),
        Fact(44, "pieces mul 2 eq 14", "p6"),
        Fact(45, "pieces div 2 eq 2.5", "p7"),
        Fact(46, "(pieces mod 2) eq 1", "p1 p3 p6 p7"),
        Fact(47, "pieces add 2 mul 3 eq 9", "p1"),
        Fact(48, "(pieces add 2) mul 3 eq 15", "p1"),
        Fact(49, "((((weight mul 2.0) div 3.0) add 1.0) gt 5.0)", "p1 p2"),
        Fact(50, "floor(weight) eq 2", "p4"),
        Fact(51, "floor(weight) eq -2", "p7"),
        Fact(52, "ceiling(weight) eq 8", ""),
        Fact(53, "ceiling(weight) eq -1", "p7"),
        Fact(54, "ceiling((pieces div 5.0)) eq 2.0", "p4 p6 p8"),
        Fact(55, "round(weight) eq 4", "p8"),
        Fact(56, "round(weight) eq -2", "p7"),
        Fact(57, "round(price) gt 14.00", "p2 p3"),
        Fact(58, "length(label) gt 12", "p3 p4 p6"),
        Fact(59, "length(concat(depot,'x')) eq 4", "p1 p2 p3 p4 p5 p6 p7 p8"),
        Fact(60, "startswith(label,'W')", "p2"),
        Fact(61, "startswith(label,'100%')", "p4"),
        Fact(62, "endswith(label,'mug')", "p7 p8"),
        Fact(63, "endswith(label,'s') eq true", "p2 p3"),
        Fact(64, "substringof('wire',label)", "p1 p6"),
        Fact(65, "substringof('wire',label) eq false", "p2 p3 p4 p5 p7 p8"),
        Fact(66, "true eq substringof('_',label)", "p4"),
        Fact(67, "not(substringof('mug',label))", "p1 p2 p3 p4 p5 p6"),
        Fact(68, "substringof('MUG',toupper(label))", "p7 p8"),
        Fact(69, "indexof(label,'wire') eq 7", "p1"),
        Fact(70, "indexof(label,'wire') ge 0", "p1 p6"),
        Fact(71, "indexof(label,'nowhere') eq -1", "p1 p2 p3 p4 p6 p7 p8"),
        Fact(72, "(tolower(label) eq 'zebra mug')", "p7 p8"),
        Fact(73, "(tolower(label) eq tolower('ZEBRA MUG'))", "p7 p8"),
        Fact(74, "toupper(depot) eq 'GDN'", "p1 p3"),
        Fact(75, "trim(label) eq 'wire brush'", "p6"),
        Fact(76, "concat(concat(depot,'-'),note) eq 'KRK-hold'", "p4"),
        Fact(77, "replace(label,' ','') eq 'Copperwire'", "p1"),
        Fact(78, "replace(label,'mug','cup') eq 'Zebra cup'", "p7"),
        Fact(79, "substring(label,6) eq 'mug'", "p7 p8"),
        Fact(80, "substring(label,1,3) eq 'ebr'", "p7 p8"),
        Fact(81, "year(sentAt) eq 2022", "p3 p6 p7"),
        Fact(82, "month(sentAt) eq 12", "p2"),
        Fact(83, "day(sentAt) eq 29", "p5"),
        Fact(84, "hour(sentAt) eq 18", "p6 p7"),
        Fact(85, "minute(sentAt) eq 45", "p6 p7"),
        Fact(86, "second(sentAt) eq 59", "p2"),
        Fact(87, "year(sentAt) gt 1968 and year(sentAt) lt 2021", "p5 p8"),
        Fact(88, "sentAt eq datetime'2022-01-01T00:00:00.000Z'", "p3"),
        Fact(89, "sentAt eq datetime'2022-01-01T00:00:00Z'", "p3"),
        Fact(90, "sentAt ge datetimeoffset'2022-06-15T18:45:30.501Z'", "p7"),
        Fact(91, "sentAt gt datetimeoffset'2022-06-15T20:45:30.5000000+02:00'", "p7"),
        Fact(92, "sentAt lt datetime'1970-01-01T00:00:00Z'", "p8"),
        Fact(93, "(fragile eq null)", "p5"),
        Fact(94, "(true eq null)", ""),
        Fact(95, "(endswith(label,'mug') eq true) and (fragile)", "p7"),
        Fact(96, "pieces eq pieces", "p1 p2 p3 p4 p5 p6 p7 p8"),
        Fact(97, "rev eq 'AAAAAAAAB9Q='", "p4"),
        Fact(
            98,
            "((depot eq 'GDN') and (sentAt ge datetimeoffset'2021-06-01T00:00:00.000Z'))",
            "p3"
        ),
    ]
}
