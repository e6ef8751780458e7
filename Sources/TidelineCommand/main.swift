// The command `tideline`. The code is in Command, because globals here belong to the main actor.

await Command.run(Array(CommandLine.arguments.dropFirst()))
