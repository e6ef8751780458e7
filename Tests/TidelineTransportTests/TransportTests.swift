// TransportTests: the suites that use sockets. They run one test after the other, because they measure
// time, and hundreds of simultaneous connections would measure the scheduler.

import Testing

@Suite(.serialized) enum TransportTests {}
