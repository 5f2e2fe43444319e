package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/cli/settings"
)

// limitsPage documents the limits.
const limitsPage = "../../docs/reference/configuration.md"

// TestLimitsAreDocumented: the page has one row for each limit, with its default and values. Set
// PERDURE_UPDATE_PAGE to write the tables anew.
func TestLimitsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(limitsPage)
	if err != nil {
		t.Fatal(err)
	}
	const from, to = "<!-- limits -->\n", "<!-- end of limits -->\n"
	before, rest, begins := strings.Cut(string(text), from)
	got, after, ends := strings.Cut(rest, to)
	if !begins || !ends {
		t.Fatalf("%s has no place for the limits", limitsPage)
	}
	want := limitTables()
	if os.Getenv("PERDURE_UPDATE_PAGE") != "" {
		if err := os.WriteFile(limitsPage, []byte(before+from+want+to+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("the limits of %s are not those of the program: run this test with PERDURE_UPDATE_PAGE=1", limitsPage)
	}
}

// limitTables returns one table for each group of limits.
func limitTables() string {
	var text strings.Builder
	group := ""
	for _, row := range settings.LimitRows() {
		if row.Group != group {
			group = row.Group
			fmt.Fprintf(&text, "\n### %s\n\n| limit | default | values | meaning |\n|---|---|---|---|\n", group)
		}
		values := row.Allowed()
		if row.ByName {
			values = "TOOL=DURATION"
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", strings.TrimPrefix(row.Name, settings.LimitPrefix), row.Default,
			values, row.Help)
	}
	return text.String() + "\n"
}

// TestLimitsTopic: the help topic has every limit.
func TestLimitsTopic(t *testing.T) {
	t.Parallel()
	topic := limitsTopic()
	for _, row := range settings.LimitRows() {
		if !strings.Contains(topic, "  "+strings.TrimPrefix(row.Name, settings.LimitPrefix)+" ") || row.Help == "" || row.Default == "" {
			t.Errorf("%s is not described: %+v", row.Name, row)
		}
	}
}
