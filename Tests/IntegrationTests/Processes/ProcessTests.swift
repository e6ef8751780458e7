// ProcessTests: the suites that start and kill processes. They run one after the other, since each keeps both cores of
// a small machine busy.

import Testing

@Suite(.serialized)
enum ProcessTests {}
