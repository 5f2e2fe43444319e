package archtest

import "slices"

// room is a row of the import table: a package, and the packages of ours that it may import in files that are not tests.
// "." is the root package. Tests may import anything.
type room struct {
	folder string // a pattern of path.Match
	may    string // folders, separated by spaces; "anything" is what it says
}

// The import table lets these in wherever a row says so.
const (
	leaves   = " internal/supervise internal/egress internal/secret internal/cron"
	wheel    = ". agent budget webhook engine store dispatch model tool internal/effect internal/sessionfile internal/sessionport internal/sessionsql internal/blob internal/payment internal/ratelimit internal/meter internal/telemetry internal/webhook" + leaves
	anything = "anything"
)

// redact is a leaf for all but the root, so no row names it.
const redact = "internal/redact"

// rooms returns the import table.
func rooms() []room {
	return slices.Concat(inner(), outer())
}

// inner is the nouns, the ports and what implements them.
func inner() []room {
	return []room{
		// nouns and ports
		{".", ""},
		{"agent", "."},
		{"budget", "."},
		{"webhook", "."},
		{"engine", ". agent budget webhook"},
		{"store", ". agent budget webhook"},
		{"model", "."},
		{"tool", ". agent budget"},
		{"dispatch", ". tool"},

		// engines
		{"engine/local", wheel + " tool/background"}, // a call may leave its turn in every engine: its model then needs the tools to look after it
		{"engine/temporal", wheel},
		{"engine/remote", ". agent budget webhook engine" + leaves},
		{"engine/enginetest", ". agent budget webhook engine"},

		// stores
		{"store/sqlstore", ". agent budget webhook store" + leaves},
		{"store/sqlite", ". store store/sqlstore"},
		{"store/postgres", ". store store/sqlstore"},
		{"store/memory", ". agent budget webhook store"},
		{"store/faulty", ". agent budget webhook store"},
		{"store/faulty/gen", ""},
		{"store/storetest", ". agent budget webhook store"},

		// models
		{"model/openai", ". model" + leaves},
		{"model/anthropic", ". model" + leaves},
		{"model/openai/openaitest", ". model"},
		{"model/anthropic/anthropictest", ". model"},
		{"model/scripted", ". model" + leaves},
		{"model/modeltest", ". model"},

		// sets of tools, decorators, laws
		{"tool/core", ". tool"},
		{"tool/file", ". tool"},
		{"tool/web", ". tool" + leaves},
		{"tool/shell", ". tool" + leaves},
		{"tool/background", ". tool"},
		{"tool/subagent", ". tool"},
		{"tool/schedule", ". tool"},
		{"tool/session", ". budget tool"},
		{"tool/mcptool", ". tool" + leaves},
		{"tool/approve", ". tool"},
		{"tool/limit", ". tool"},
		{"tool/tooltest", ". tool tool/background engine engine/local store store/memory store/faulty model model/scripted"},

		// leaves, and what carries a command out
		{"internal/supervise", ". internal/sandbox"},
		{"internal/sandbox", ""},
		{"internal/supervise/supervisetest", "internal/supervise"},
		{"internal/egress", "."},
		{"internal/secret", "."},
		{"internal/cron", "."},
		{"internal/redact", ""},
		{"internal/sessionfile", ". store tool"},
		{"internal/sessionport", ". agent budget webhook internal/meter store tool model internal/secret internal/sessionsql internal/blob internal/redact internal/foldcache"},
		{"internal/sessionsql", ". tool"},
		{"internal/payment", ". store tool internal/egress"},
		{"internal/ratelimit", ". store tool"},
		{"internal/blob", "."},
		{"internal/telemetry", ". dispatch model store tool"},
		{"internal/effect", ". agent budget internal/meter model tool dispatch store internal/sessionfile internal/foldcache internal/telemetry internal/veil"},
		{"internal/foldcache", "."},
		{"internal/meter", ". budget store"},
		{"internal/webhook", ". webhook store internal/redact"},
		{"internal/veil", ". tool"},
	}
}

// outer is the ways in, and what is for tests.
func outer() []room {
	return []room{
		{"internal/api", ". agent budget webhook engine internal/access internal/cron internal/telemetry"},
		{"internal/manual", ""},
		{"docs", ""},
		{"internal/access", ". budget webhook engine store"},
		{"internal/mcpserver", ". engine tool internal/access internal/telemetry"},
		{"internal/cli", ". agent budget webhook engine docs internal/cron internal/config internal/redact internal/cli/admin internal/cli/demo internal/cli/complete internal/cli/form internal/cli/man internal/cli/mcp internal/cli/raw internal/cli/settings internal/cli/sprout internal/cli/storm"},
		{"internal/cli/raw", "."},
		{"internal/cli/complete", ""},
		{"internal/cli/man", ""},
		{"internal/cli/settings", "."},
		{"internal/cli/sprout", "."},
		{"internal/cli/admin", ". internal/backup"},
		{"internal/cli/mcp", "."},
		{"internal/mcpserver/conformance/client", anything}, // what its client side drives
		{"internal/mcpserver/conformance/server", anything}, // what the conformance suite is run against
		{"internal/backup", ". store store/sqlite internal/chaos"},
		{"internal/cli/demo", ". budget engine internal/chaos"},
		{"internal/cli/form", "."},
		{"internal/cli/storm", ". engine internal/chaos internal/pgserver"},
		{"internal/ui", ". engine"},
		{"internal/chaos", ". engine"},
		{"internal/config", ". engine"},
		{"internal/sim", ". engine engine/local dispatch model store store/faulty store/memory tool tool/background tool/subagent internal/chaos"},
		{"internal/enginerig", ". engine engine/enginetest engine/local internal/egress internal/secret dispatch model store tool tool/background tool/schedule tool/subagent"}, // for tests
		{"internal/linear", ""},    // tests only
		{"internal/injection", ""}, // tests only
		{"internal/disktest", ""},  // for tests
		{"internal/pgserver", ""},
		{"internal/pgtest", "internal/pgserver"}, // for tests
		{"internal/soak", ""},                    // for tests
		{"internal/archtest", ""},

		{"cmd/*", anything},
		{"examples/*", anything},
		{"bench", anything},
		{"bench/*", anything},
	}
}
