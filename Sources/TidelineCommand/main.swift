// The command `tideline`. Its work is in Command: globals here would be bound to the main actor.

await Command.run(Array(CommandLine.arguments.dropFirst()))
