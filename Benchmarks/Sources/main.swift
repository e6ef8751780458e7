// The command `bench`: the parts of scripts/bench that wrk does not support.

await Bench.run(Array(CommandLine.arguments.dropFirst()))
