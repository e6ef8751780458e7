// LoopThread: starts a thread. `Thread` needs the full library, and a server without it is a sixth of the size.

import Glibc

/// A starter of threads that does not need Foundation's `Thread`.
enum LoopThread {
    private final class Body: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    static func start(_ run: @escaping @Sendable () -> Void) throws(HTTPServerError) {
        let body = Unmanaged.passRetained(Body(run))
        var thread = pthread_t()
        let result = pthread_create(
            &thread,
            nil,
            { argument in
                guard let argument else { return nil }
                Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run()
                return nil
            },
            body.toOpaque()
        )
        guard result == 0 else {
            body.release()
            throw .exhausted("no thread for an event loop")
        }
        pthread_detach(thread)
    }
}
