// TransportTests: the suites that use sockets, one test after the other: they measure time,
// and hundreds of connections that begin at once would measure the scheduler.

import Testing

@Suite(.serialized) enum TransportTests {}
