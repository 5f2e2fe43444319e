package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/cli/settings"
)

// Limits are the limits of the engine that a command opens.
type Limits = settings.Limits

// limitsTopic returns the help topic about limits.
func limitsTopic() string {
	var text strings.Builder
	text.WriteString(`
Each limit is a setting. A configuration file sets it below limits, the
environment as PERDURE_LIMITS_NAME, the command line as --limits.NAME. It counts
for every command that does work in its own process: run, serve, mcp serve and
others that open a data directory. A server applies its own.

    limits:
      slots-per-session: 3
      overflow: reject
      soft-budgets: {bash: 30s, web_fetch: 1m}

Sizes are bytes, or KiB, MiB and GiB. Times are durations such as 30s, 10m, 30d.
none switches a limit off, where that is possible. An agent can tighten some of
them for its sessions, and loosen none: see docs/reference/configuration.md.
`)
	group := ""
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range settings.LimitRows() {
		if row.Group != group {
			group = row.Group
			fmt.Fprintf(table, "\n%s\n", group)
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\n", strings.TrimPrefix(row.Name, settings.LimitPrefix), row.Default, row.Help)
	}
	_ = table.Flush() // a strings.Builder takes everything
	return text.String()
}

// limitsAdvice leads to the description of all limits, which no --help shows.
const limitsAdvice = program + " help limits  lists all limits with their defaults"

// checkLimits refuses wrong limits, except for commands that help to correct them.
func checkLimits(root *kong.Node, parsed *kong.Context) error {
	if err := settings.CheckLimits(root); err != nil && !worksWithBrokenConfig(parsed) {
		return usageError(err.Error(), limitsAdvice)
	}
	return nil
}

// typedLimit returns the first limit on the command line; empty: there is none.
func typedLimit(typed map[string]bool) string {
	for _, row := range settings.LimitRows() {
		if typed[row.Name] {
			return "--" + row.Name
		}
	}
	return ""
}
