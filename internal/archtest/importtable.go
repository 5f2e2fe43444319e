package archtest

import "slices"

// importRow is a row of the import table: a package, and our packages that it may import outside
// tests. "." is the root package. Tests may import anything.
type importRow struct {
	folder  string // a pattern of path.Match
	imports string // folders, separated by spaces, or "anything"
}

// Groups of packages for the rows of the import table.
const (
	leaves     = " internal/supervise internal/egress internal/secret internal/cron internal/sse internal/strictjson"
	engineDeps = ". agent budget webhook engine engine/config store dispatch model model/provider tool internal/effect internal/sessionfile internal/sessionport internal/sessionsql internal/blob internal/payment internal/ratelimit internal/meter internal/telemetry internal/webhook" + leaves + stories
	// pure packages that import the standard library only, so that the root may import them
	rootLeaves = "internal/growmap internal/hmacuuid internal/shorten internal/strictjson internal/urlform"
	stories    = " internal/effect/core internal/effect/toolset internal/effect/secrets internal/effect/environment internal/effect/admission internal/effect/generation internal/effect/cleanup internal/effect/taskrecord internal/effect/taskrun internal/effect/approval internal/effect/foreground internal/effect/hostcall internal/effect/schedule internal/effect/taskport internal/effect/taskprocess internal/effect/subagent"
	anything   = "anything"
)

// redact may be imported by every package except the root and its leaves, so no row lists it.
const redact = "internal/redact"

// importTable returns the import table.
func importTable() []importRow {
	return slices.Concat(innerPackages(), leafPackages(), storyPackages(), outerPackages())
}

// innerPackages returns the rows of nouns, ports and their implementations.
func innerPackages() []importRow {
	return []importRow{
		// nouns and ports
		{".", rootLeaves},
		{"agent", "."},
		{"budget", "."},
		{"webhook", "."},
		{"engine", ". agent budget webhook"},
		{"store", ". agent budget webhook internal/strictjson"},
		{"model", "."},
		{"tool", ". agent budget internal/strictjson internal/toolschema"},
		{"dispatch", ". tool internal/strictjson"},

		// engines
		{"engine/config", ". dispatch tool"},
		{"engine/host", engineDeps + " internal/connection internal/redact internal/secretargs tool/background tool/file"}, // a detached call needs the tools for tasks; callers search files as grep_files does
		{"engine/local", ". engine engine/config engine/host model/provider store tool internal/blob internal/sessionport internal/sessionsql" + leaves},
		{"engine/temporal", ". engine/host engine/local"}, // a module of its own
		{"engine/remote", ". agent budget webhook engine" + leaves},
		{"engine/enginetest", ". agent budget webhook engine"},

		// stores
		{"store/sqlstore", ". agent budget webhook store" + leaves},
		{"store/sqlite", ". store store/sqlstore"},
		{"store/postgres", ". store store/sqlstore"},
		{"store/memory", ". agent budget webhook store"},
		{"store/faulty", ". agent budget webhook store"},
		{"store/faulty/gen", "internal/portsource"},
		{"store/storetest", ". agent budget webhook store"},

		// models
		{"model/openai", ". model internal/modelhistory internal/modelwire internal/providertools" + leaves},
		{"model/anthropic", ". model internal/modelhistory internal/modelwire internal/providertools" + leaves},
		{"model/provider", ". model model/anthropic model/openai"},
		{"model/openai/openaitest", ". model"},
		{"model/anthropic/anthropictest", ". model"},
		{"model/scripted", ". model" + leaves},
		{"model/modeltest", ". model internal/strictjson"},

		// tools, decorators, suites
		{"tool/core", ". tool"},
		{"tool/file", ". tool"},
		{"tool/web", ". tool" + leaves},
		{"tool/shell", ". tool" + leaves},
		{"tool/background", ". tool internal/strictjson"},
		{"tool/subagent", ". tool"},
		{"tool/schedule", ". tool"},
		{"tool/session", ". budget tool"},
		{"tool/mcptool", ". tool" + leaves},
		{"tool/defaults", ". tool tool/background tool/core tool/file tool/schedule tool/session tool/subagent tool/web"},
		{"tool/tooltest", ". tool tool/background engine engine/local store store/memory store/faulty model model/scripted"},
	}
}

// leafPackages returns the rows of leaves, and of packages that execute commands.
func leafPackages() []importRow {
	return []importRow{
		{"internal/supervise", ". internal/sandbox"},
		{"internal/sandbox", ""},
		{"internal/supervise/supervisetest", "internal/supervise"},
		{"internal/egress", ". internal/urlform"},
		{"internal/secret", "."},
		{"internal/cron", "."},
		{"internal/sse", ""},
		{"internal/modelhistory", ". model internal/strictjson"},
		{"internal/modelwire", ". model"},
		{"internal/redact", ""},
		{"internal/gcstart", ""},
		{"internal/growmap", ""},
		{"internal/hmacuuid", ""},
		{"internal/shorten", ""},
		{"internal/strictjson", ""},
		{"internal/toolschema", "internal/strictjson"},
		{"internal/providertools", ". model internal/toolschema"},
		{"internal/urlform", ""},
		{"internal/sessionfile", ". store tool"},
		{"internal/sessionport",
			". agent budget webhook internal/meter store tool model internal/secret internal/sessionsql internal/blob internal/redact internal/sessioncache"},
		{"internal/connection", ". store internal/sessionport internal/egress"},
		{"internal/connection/oauthtest", ""}, // for tests
		{"internal/sessionsql", ". tool"},
		{"internal/payment", ". store tool internal/egress internal/strictjson internal/urlform"},
		{"internal/ratelimit", ". store tool"},
		{"internal/blob", "."},
		{"internal/telemetry", ". dispatch model store tool"},
		{"internal/sessioncache", "."},
		{"internal/meter", ". budget store"},
		{"internal/webhook", ". webhook store internal/redact"},
		{"internal/secretargs", ". tool internal/strictjson"},
	}
}

// storyPackages returns the rows of the effect layer, one package a story.
func storyPackages() []importRow {
	return []importRow{
		{"internal/effect/core", ". budget dispatch engine/config model store tool internal/meter internal/sessioncache internal/sessionfile internal/telemetry"},
		{"internal/effect/toolset", ". model tool internal/effect/core"},
		{"internal/effect/secrets", ". tool internal/secretargs internal/effect/core internal/effect/toolset"},
		{"internal/effect/environment", ". store tool internal/secretargs internal/sessionfile internal/effect/core internal/effect/secrets internal/effect/toolset"},
		{"internal/effect/admission", ". dispatch store tool internal/secretargs internal/strictjson internal/effect/core internal/effect/secrets internal/effect/toolset"},
		{"internal/effect/generation", ". agent budget model store tool internal/meter internal/effect/core internal/effect/secrets internal/effect/toolset"},
		{"internal/effect/cleanup", ". store tool internal/effect/core internal/effect/toolset"},
		{"internal/effect/taskrecord", ". budget dispatch store tool internal/meter internal/effect/admission internal/effect/core internal/effect/secrets internal/effect/toolset"},
		{"internal/effect/taskrun", ". dispatch store tool internal/secretargs internal/sessionfile internal/telemetry internal/effect/core internal/effect/environment internal/effect/secrets internal/effect/taskrecord internal/effect/toolset"},
		{"internal/effect/approval", ". store internal/secretargs internal/strictjson internal/effect/core internal/effect/secrets internal/effect/taskrecord internal/effect/taskrun internal/effect/toolset"},
		{"internal/effect/foreground", ". dispatch store tool internal/telemetry internal/strictjson internal/effect/admission internal/effect/core internal/effect/environment internal/effect/secrets internal/effect/taskrecord internal/effect/taskrun internal/effect/toolset"},
		{"internal/effect/hostcall", ". store tool internal/secretargs internal/telemetry internal/effect/admission internal/effect/core internal/effect/secrets internal/effect/taskrecord internal/effect/taskrun internal/effect/toolset"},
		{"internal/effect/schedule", ". dispatch store tool internal/secretargs internal/effect/admission internal/effect/core internal/effect/environment internal/effect/secrets internal/effect/taskrecord internal/effect/taskrun internal/effect/toolset"},
		{"internal/effect/taskport", ". store tool internal/secretargs internal/effect/admission internal/effect/core internal/effect/environment internal/effect/secrets internal/effect/taskrecord internal/effect/taskrun internal/effect/toolset"},
		{"internal/effect/taskprocess", ". store tool internal/secretargs internal/effect/core internal/effect/secrets internal/effect/toolset"},
		{"internal/effect/subagent", ". store tool internal/secretargs internal/sessionfile internal/telemetry internal/effect/core internal/effect/environment internal/effect/secrets internal/effect/taskrecord internal/effect/taskrun"},
		{"internal/effect", ". budget store tool internal/meter internal/sessioncache" + stories},
		{"internal/effect/effecttest", ". dispatch model/scripted store store/memory tool internal/effect/admission internal/effect/core internal/effect/environment internal/effect/secrets internal/effect/taskrecord internal/effect/toolset"}, // for tests
	}
}

// outerPackages returns the rows of APIs, commands, and packages for tests.
func outerPackages() []importRow {
	return []importRow{
		{"internal/api", ". agent budget webhook engine internal/access internal/cron internal/telemetry internal/strictjson"},
		{"internal/manual", ""},
		{"internal/ui", ". internal/access"},
		{"docs", ""},
		{"internal/access", ". budget webhook engine store"},
		{"internal/access/gen", "internal/portsource"},
		{"internal/portsource", ""},
		{"internal/mcpserver", ". engine tool internal/access internal/telemetry"},
		{"internal/cli", ". agent budget webhook engine docs internal/cron internal/redact internal/cli/admin internal/cli/demo internal/cli/dev internal/cli/complete internal/cli/output internal/cli/man internal/cli/mcp internal/cli/raw internal/cli/settings internal/cli/scaffold internal/cli/chaoscmd internal/strictjson"},
		{"internal/cli/raw", "."},
		{"internal/cli/complete", ""},
		{"internal/cli/man", ""},
		{"internal/cli/settings", "."},
		{"internal/cli/scaffold", "."},
		{"internal/cli/admin", ". internal/backup"},
		{"internal/cli/mcp", ". internal/cli/settings"},
		{"internal/mcpserver/conformance/client", anything}, // the client under test
		{"internal/mcpserver/conformance/server", anything}, // the server under test
		{"internal/backup", ". store store/sqlite internal/chaos"},
		{"internal/cli/dev", ""},
		{"internal/cli/demo", ". budget engine internal/chaos"},
		{"internal/cli/output", "."},
		{"internal/cli/chaoscmd", ". engine internal/chaos internal/pgserver"},
		{"internal/chaos", ". engine"},
		{"internal/sim", ". engine engine/host engine/local dispatch model store store/faulty store/memory tool tool/background tool/subagent internal/chaos"},
		// for tests
		{"internal/enginerig", ". engine engine/enginetest engine/local internal/egress internal/secret dispatch model store tool tool/background tool/schedule tool/subagent"},
		{"internal/linearizability", ""}, // tests only
		{"internal/injection", ""},       // tests only
		{"internal/contact", ""},         // tests only
		{"internal/modproxy", ""},        // for tests
		{"internal/crashfs", ""},         // for tests
		{"internal/pgserver", ""},
		{"internal/pgtest", "internal/pgserver"}, // for tests
		{"internal/soak", ""},                    // for tests
		{"internal/archtest", ""},

		{"engine/temporal/cmd/*", anything},
		{"engine/temporal/bench/*", anything},
		{"engine/temporal/internal/program", ". engine engine/local engine/temporal internal/app internal/cli"},
		{"internal/app", anything}, // wires adapters for the programs
		{"cmd/*", anything},
		{"examples/*", anything},
		{"bench", anything},
		{"bench/*", anything},
	}
}
