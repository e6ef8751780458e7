// The command `bench`: the parts of scripts/bench that wrk cannot do.

await Bench.run(Array(CommandLine.arguments.dropFirst()))
