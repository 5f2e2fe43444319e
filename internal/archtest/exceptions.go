package archtest

// exceptions returns the places where a rule made the code worse, each with its reason. A line looks like this:
//
//	{"json", "model/openai/stream.go", "the provider's own stream: unknown fields are expected"},
//	{"function-size", "store/sqlstore.Store.Claim", "one statement after another; parts would hide their order"},
//
// The first word is the name of a rule. The second is a file, a folder with a slash at its end (and all below it), or a symbol:
// the folder, a dot, and the name; in the root the name of the package, a dot, and the name. A line that is not needed any
// more fails.
func exceptions() []exception {
	return []exception{
		{"sql", "internal/archtest/bans.go", "the pattern that finds SQL"},
		{"sql", "bench/borders/budgetsql.go", "the bare statements that a budget is measured beside"},
		{"sql", "bench/floorsql.go", "the floor is SQL without any of our layers: that is what it measures"},
		{"sql", "internal/backup/backup_test.go", "makes the database of a session, and damages databases past the store"},
		{"sql", "internal/backup/verify_test.go", "damages a database past the store, in ways that no store would"},
		{"sql", "tool/session/sql_test.go", "what a model would write"},
		{"sql", "engine/local/besidemove_test.go", "what a model would write"},
		{"sql", "internal/sessionsql/", "what the databases of sessions are asked by the runtime itself; they are SQLite's alone"},
		{"sql", "internal/pgserver/cluster.go", "the databases of the tests are made, emptied and disturbed past any store"},
		{"package-size", ".", "a noun has a file of its own, and the root has all nouns"},
		{"package-size", "store/storetest", "a suite has a file for each noun of the port, and grows with it; parts would hide what a store must keep"},
		{"package-size", "store/memory", "a noun of the port has a file of its own here, as there"},
		{"package-size", "store/sqlstore", "a noun of the port has a file of its own here, as there"},
		{"package-size", "internal/effect", "what carries commands out shares its unexported parts; a file is one kind of command"},
		{"package-size", "engine/local", "a noun of the engine has a file of its own, as in the port"},
		{"package-size", "cmd/perdure", "what is wired has a file of its own, and parts would have to be wired themselves"},
		{"package-size", "tool", "each port of a tool has a file of its own"},
		{"package-size", "internal/cli", "each noun of the command line has a file of its own"},
		{"package-size", "internal/api", "each noun of the API has a file of its own"},
		{"package-size", "engine/enginetest", "a suite has a file for each noun of the port, and grows with it; parts would hide what an engine must keep"},
		{"dial", "bench/load/raw.go", "what no client of net/http would send: headers byte by byte, bodies without an end, and more requests than it can count"},
		{"dial", "internal/chaos/ledger.go", "the ledger is a part of the world outside, and no tool's way out"},
		{"json", "strict.go", "the strict decoder itself: the text was checked before, or is tried for its fault"},
		{"json", "event.go", "our own stored bytes; fields of later versions are ignored on purpose (EV10)"},
		{"json", "session.go", "our own snapshot, which is only a cache"},
		{"json", "model/scripted/node.go", "reads tokens one by one, to know their lines; the strict decoder reads the whole beside it"},
		{"json", "tool/compile.go", "a schema in canonical JSON, so no key comes twice; the validator wants its own values"},
		{"json", "tool/validate.go", "arguments in canonical JSON, likewise"},
		{"json", "tool/schema.go", "arguments in canonical JSON, likewise; defaults are added and the strict decoder reads the rest"},
		{"json", "tool/rawoutput.go", "a result that we have just encoded"},
		{"json", "internal/effect/taskend.go", "a result that we have just encoded"},
		{"json", "bench/reliability/page.go", "our own results, which the run before kept"},
		{"json", "internal/chaos/sample.go", "the schema of a server's tool: it has many more keywords than a sample looks at"},
		{"json", "internal/sandbox/launch_linux.go", "what a stage of ours says in a pipe"},
		{"json", "internal/sandbox/entry_linux.go", "the order of our own supervisor, in a pipe"},
		{"json", "internal/supervise/rundir.go", "records of our own supervisor; a later one may have more fields, and a broken one is an error"},
		{"json", "store/audit.go", "reads back records that the store wrote itself, after their hash"},
		{"json", "store/memory/row.go", "our own records"},
		{"json", "store/sqlstore/record.go", "reads back records that the store wrote itself"},
		{"json", "store/sqlite/lock.go", "the lock file is our own, read only for the text of a refusal"},
		{"json", "summary.go", "a result of ours, of which only as many fields are read as a line has room for"},
	}
}
