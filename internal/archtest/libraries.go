package archtest

// library is a required module.
type library struct {
	module    string
	version   string
	importers string // folders as patterns of path.Match, separated by spaces; "tests" matches tests and suites
}

// tests marks libraries for tests only.
const tests = "tests"

// libraries returns the modules that go.mod may require directly, their versions, and the packages
// that may import them. A test file may import what its package may. The root and the ports engine,
// store and model have no libraries.
func libraries() []library {
	return []library{
		// storage
		{"modernc.org/sqlite", "v1.61.1", "store/sqlite internal/sessionsql"},
		{"github.com/jackc/pgx/v5", "v5.12.0", "store/postgres"},
		{"github.com/pressly/goose/v3", "v3.29.0", "store/sqlstore"},

		// models, tools and their protocols
		{"github.com/anthropics/anthropic-sdk-go", "v1.84.0", "model/anthropic"},
		// scripts, -o yaml and configuration files are YAML
		{"go.yaml.in/yaml/v3", "v3.0.5", "model/scripted internal/cli/output internal/cli/settings tests"},
		{"github.com/modelcontextprotocol/go-sdk", "v1.8.0",
			"internal/mcpserver internal/mcpserver/conformance/server tool/mcptool internal/app bench/mcpproxy"},
		{"github.com/google/jsonschema-go", "v0.4.3", "tool dispatch"},
		{"github.com/santhosh-tekuri/jsonschema/v6", "v6.0.3", "tool dispatch tests"},
		{"github.com/JohannesKaufmann/html-to-markdown/v2", "v2.5.2", "tool/web"},
		{"github.com/bmatcuk/doublestar/v4", "v4.10.4", "tool/file"},

		// engines, and libraries that they share with internal packages
		{"github.com/cenkalti/backoff/v5", "v5.0.3", "engine/* internal/*"},
		{"github.com/google/uuid", "v1.6.0", "engine/* internal/* internal/effect/core"},
		{"golang.org/x/sync", "v0.24.0", "tool dispatch engine/* internal/*"},
		{"golang.org/x/time", "v0.16.0", "engine/* internal/*"},
		{"github.com/netresearch/go-cron", "v0.15.0", "internal/cron"},

		// safety
		{"code.dny.dev/ssrf", "v0.3.0", "internal/egress"},
		{"golang.org/x/oauth2", "v0.37.0", "internal/connection"},
		{"github.com/landlock-lsm/go-landlock", "v0.11.0", "internal/sandbox"},

		// API, command line and documentation
		{"github.com/danielgtaylor/huma/v2", "v2.39.0", "internal/api"},
		{"github.com/standard-webhooks/standard-webhooks/libraries", "v0.0.1", "internal/webhook internal/payment examples/webhook examples/payments"},
		{"github.com/yuin/goldmark", "v1.8.7", "internal/manual"},
		{"github.com/alecthomas/kong", "v1.17.0",
			"internal/cli internal/cli/complete internal/cli/man internal/cli/settings"},
		{"github.com/itchyny/gojq", "v0.12.20", "internal/cli/output"}, // --jq
		{"golang.org/x/text", "v0.43.0", "internal/cli"},
		{"github.com/lmittmann/tint", "v1.2.1", "internal/app"},

		// telemetry: the API in all packages, exporters in main
		{"go.opentelemetry.io/otel", "v1.47.0", "engine/* internal/* internal/app"},
		{"go.opentelemetry.io/otel/metric", "v1.47.0", "engine/* internal/* internal/app"},
		{"go.opentelemetry.io/otel/trace", "v1.47.0", "engine/* internal/* internal/app"},
		{"go.opentelemetry.io/otel/sdk", "v1.47.0", "internal/app tests"},
		{"go.opentelemetry.io/otel/sdk/metric", "v1.47.0", "internal/app tests"},
		{"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp", "v1.47.0", "internal/app"},
		{"go.opentelemetry.io/otel/exporters/prometheus", "v0.69.0", "internal/app"},
		{"github.com/prometheus/client_golang", "v1.24.1", "internal/app"},

		// in the go.mod of a nested module only: a version that go.mod never has
		{"go.temporal.io/api", "none", "engine/temporal engine/temporal/internal/program"},
		{"go.temporal.io/sdk", "none", "engine/temporal engine/temporal/internal/program engine/temporal/bench/*"},
		{"google.golang.org/grpc", "none", tests},
		{"google.golang.org/protobuf", "none", "engine/temporal engine/temporal/internal/program"},

		// tests
		{"github.com/anishathalye/porcupine", "v1.3.1", tests},
		{"github.com/google/go-cmp", "v0.7.0", tests},
		{"github.com/prometheus/common", "v0.72.0", tests},
		{"github.com/rogpeppe/go-internal", "v1.16.0", tests},
		{"go.uber.org/goleak", "v1.3.0", tests},
		{"pgregory.net/rapid", "v1.3.0", tests},
	}
}
