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
		{"json", "canonical.go", "reads token by token, with exact numbers and no key twice: the strict reader itself"},
		{"json", "event.go", "our own stored bytes; fields of later versions are ignored on purpose (EV10)"},
		{"json", "session.go", "our own snapshot, which is only a cache"},
		{"json", "internal/chaos/record.go", "the lines that the demo's own tools wrote"},
		{"json", "model/scripted/node.go", "reads tokens one by one; duplicate keys and trailing text are refused"},
		{"json", "tool/typed.go", "canonical JSON, so no key comes twice; unknown fields are refused"},
		{"json", "internal/supervise/rundir.go", "records of our own supervisor; a later one may have more fields, and a broken one is an error"},
		{"json", "internal/cli/frame.go", "our own live frames; fields that are not looked at are left"},
		{"json", "store/memory/row.go", "our own records"},
		{"json", "store/sqlstore/record.go", "reads back records that the store wrote itself"},
		{"json", "store/sqlite/lock.go", "the lock file is our own, read only for the text of a refusal"},
		{"json", "delivery.go", "a result of ours, looked at only to see whether it is a string"},
	}
}
